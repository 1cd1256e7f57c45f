package start

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailrace-cdc/tailrace/internal/remote"
	"github.com/tailrace-cdc/tailrace/internal/util/outbound"
)

// A remote of the API does not get the passwords that the operator has for other hosts.
func TestPasswordsOfTheEnvironmentStayHere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pgpass")
	if err := os.WriteFile(file, []byte("*:*:*:*:of-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGPASSFILE", file)
	for _, c := range []struct {
		environment, secret, want string
		policy                    *outbound.Policy
	}{
		{"", "", "of-the-file", nil},
		{"of-the-environment", "", "of-the-environment", nil},
		{"of-the-environment", "own", "own", nil},
		{"", "", "", new(outbound.Policy)},
		{"of-the-environment", "", "", new(outbound.Policy)},
		{"of-the-environment", "own", "own", new(outbound.Policy)},
	} {
		t.Setenv("PGPASSWORD", c.environment)
		for _, address := range []string{"postgres://user@db.example.org/db?sslmode=disable", "postgres://db.example.org/db?user=user"} {
			dsn := dataSource(remote.Connection{Address: remote.Address{Kind: remote.Postgres, Text: address}, Secret: c.secret, Outbound: c.policy})
			config, err := pgconn.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			if config.Password != c.want || config.User != "user" || config.Host != "db.example.org" {
				t.Errorf("%+v, %s: user %q, password %q at %s", c, address, config.User, config.Password, config.Host)
			}
		}
	}
}
