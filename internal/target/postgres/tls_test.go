package postgres

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// An authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), name+".crt")}
	der, key := a.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.key = key
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// issue signs a certificate; the first signs itself.
func (a *authority) issue(t *testing.T, template *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer); err != nil {
		t.Fatal(err)
	}
	return der, key
}

// A lockedBuffer is a log that several goroutines write to.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestLevelOfTLSIsWhatItIs: against a server with a certificate of an authority of its own, every sslmode gets
// what it asks for or no connection, the log says what is in force, and so does the preflight.
func TestLevelOfTLSIsWhatItIs(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	der, key := ours.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "database"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 2)}})
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	server := testenv.StartPostgres(t, testenv.PostgresOptions{Settings: map[string]string{"fsync": "off"}})
	server.Stop(t)
	server.WriteFile(t, "server.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	server.WriteFile(t, "server.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	server.WriteFile(t, "postgresql.auto.conf", "ssl = on\n")
	server.Restart(t)
	for _, c := range []struct {
		host, mode, root string
		level            tlsLevel // "" if there is no connection
	}{
		{"127.0.0.1", "disable", "", tlsNone},
		{"127.0.0.1", "prefer", "", tlsUnknown},
		{"127.0.0.1", "require", "", tlsUnknown},
		{"127.0.0.1", "require", ours.file, tlsCA},
		{"127.0.0.1", "verify-ca", ours.file, tlsCA},
		{"127.0.0.1", "verify-ca", theirs.file, ""},
		{"localhost", "verify-full", ours.file, tlsVerified},
		{"127.0.0.1", "verify-full", ours.file, ""}, // the certificate is for another name
		{"localhost", "verify-full", theirs.file, ""},
		{"localhost", "verify-full", "", ""}, // no system knows the authority
	} {
		name := fmt.Sprintf("%s %s %s", c.host, c.mode, filepath.Base(c.root))
		query := url.Values{"sslmode": {c.mode}}
		if c.root != "" {
			query.Set("sslrootcert", c.root)
		}
		dsn := fmt.Sprintf("postgres://postgres@%s:%d/postgres?%s", c.host, server.Port(), query.Encode())
		var log lockedBuffer
		target := open(t, Config{DSN: dsn, Logger: slog.New(slog.NewTextHandler(&log, nil)), StagingSchema: "s" + name})
		s, err := target.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "me"})
		if (err == nil) != (c.level != "") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		report, preflightErr := Preflight(t.Context(), Config{DSN: dsn})
		if preflightErr != nil {
			t.Fatal(preflightErr)
		}
		if err != nil {
			if report.OK() || logical.HintOf(err) == "" {
				t.Errorf("%s: %v, preflight %+v", name, err, report)
			}
			continue
		}
		if want := fmt.Sprintf("tls=%q", c.level); !strings.Contains(log.String(), want) && !strings.Contains(log.String(), strings.ReplaceAll(want, `"`, "")) {
			t.Errorf("%s: the log does not say %s: %s", name, want, log.String())
		}
		found := ""
		for _, check := range report {
			if check.Name == "encryption" {
				found = check.Found
			}
		}
		if found != string(c.level) {
			t.Errorf("%s: the preflight says %q", name, found)
		}
		if err := s.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestHostThatTakesWritesIsFound: of several hosts the one that is no standby is written to, and when the roles
// change, so does the host.
func TestHostThatTakesWritesIsFound(t *testing.T) {
	t.Parallel()
	first := testenv.StartPostgres(t, testenv.PostgresOptions{Settings: map[string]string{"fsync": "off"}})
	second := testenv.StartPostgres(t, testenv.PostgresOptions{Settings: map[string]string{"fsync": "off"}})
	second.Stop(t)
	second.WriteFile(t, "standby.signal", "")
	second.Restart(t)
	hosts := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", second.Port(), first.Port())
	target := open(t, Config{DSN: "postgres://postgres@" + hosts + "/postgres?sslmode=disable&target_session_attrs=read-write"})
	apply := func() error {
		s, err := target.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "me"})
		if err != nil {
			return err
		}
		_, mut := value(1)
		if err := logicaltest.Apply(t.Context(), s, mut(1)); err != nil {
			return err
		}
		return s.Release(t.Context())
	}
	if err := apply(); err != nil {
		t.Fatal(err)
	}
	count := func(server *testenv.Postgres) string {
		return rows(t, open(t, Config{DSN: server.DSN("postgres")}), "SELECT count(*) FROM pg_class WHERE relname = 'm'")[0][0]
	}
	if count(first) != "1" || count(second) != "0" {
		t.Fatalf("it went to the standby")
	}
	// The roles change.
	first.Stop(t)
	if err := apply(); err == nil || logical.ClassOf(err) != logical.ClassRetry || logical.HintOf(err) == "" {
		t.Errorf("with nobody who takes writes: %v", err)
	}
	first.WriteFile(t, "standby.signal", "")
	first.Restart(t)
	exec(t, open(t, Config{DSN: second.DSN("postgres")}), "SELECT pg_promote()")
	deadline := time.Now().Add(time.Minute)
	for err := apply(); err != nil; err = apply() {
		if logical.ClassOf(err) != logical.ClassRetry || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if count(second) != "1" {
		t.Error("it does not find the new primary")
	}
}
