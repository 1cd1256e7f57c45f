package remote

import (
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/util/outbound"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, want, secret string
		kind               Kind
	}{
		{"https://host:8086", "https://host:8086", "", Influx},
		{"http://host/prefix/", "http://host/prefix/", "", Influx},
		{"http://host:8086?kind=1", "http://host:8086?kind=1", "", Influx},
		{"http://user:hunter2@host:8086", "http://user@host:8086", "hunter2", Influx},
		{"http://:hunter2@host:8086", "http://host:8086", "hunter2", Influx},
		{"http://host:8086?token=hunter2", "http://host:8086", "hunter2", Influx},
		{"postgres://user:hunter%2F2@host/db?sslmode=require", "postgres://user@host/db?sslmode=require", "hunter/2", Postgres},
		{"postgresql://user@host/db?password=hunter2&sslmode=require", "postgresql://user@host/db?sslmode=require", "hunter2", Postgres},
		{"postgres://a,b:5433/db", "postgres://a,b:5433/db", "", Postgres},
		{"postgres://u:hunter2@a:5432,[::1]:5433,c/db", "postgres://u@a:5432,[::1]:5433,c/db", "hunter2", Postgres},
		{"postgres://u@h/db?password=hun%3Bter%252", "postgres://u@h/db", "hun;ter%2", Postgres},
		{"postgres://u@h/db?sslmode=require&connect_timeout=5", "postgres://u@h/db?connect_timeout=5&sslmode=require", "", Postgres},
		{"http://host:8086?", "http://host:8086", "", Influx},
		{"sqlite:file.db", "sqlite:file.db", "", SQLite},
		{"sqlite:./x/../file.db", "sqlite:file.db", "", SQLite},
		{"sqlite:///var/lib/file.db", "sqlite:/var/lib/file.db", "", SQLite},
	} {
		a, secret, err := Parse(c.text)
		if err != nil || a.Text != c.want || secret != c.secret || a.Kind != c.kind {
			t.Errorf("%s: %+v, %q, %v; want %s, %q", c.text, a, secret, err, c.want, c.secret)
		}
	}
	for _, bad := range []string{
		"", "host", "host:8086", "ftp://host", "http://", "http:host", "https:///path", "sqlite:", "sqlite::memory:", "sqlite:x?mode=memory",
		"http://host?bucket=x", "postgres:", "http://ho st", "mysql://hunter2@host",
		"postgres://u@h/db?password=hunter2;x", "postgres://u@h/db?password=hunter2%", "postgres://u@h/db?x=1;password=hunter2",
		"http://h:8086?token=hunter2;", "https://h:8086/?p=hunter2%", "postgres://a:1,b:hunter2/db", "http://h?kind=2;x",
	} {
		if a, _, err := Parse(bad); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %+v, %v", bad, a, err)
		}
		if shown := Shown(bad); shown != "" {
			t.Errorf("%q is shown as %q", bad, shown)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	limits := func(list ...string) Limits {
		policy, err := outbound.NewPolicy(list)
		if err != nil {
			t.Fatal(err)
		}
		return Limits{Outbound: policy}
	}
	for text, ok := range map[string]bool{
		"http://db.example.org:8086": true, "http://DB.example.ORG": true, "http://a.example.net": true, "http://a.b.example.net": true,
		"postgres://db.example.org,a.example.net:5433/db": true,
		"http://example.net":                              false, "http://example.org": false, "http://11.0.0.1": false, "http://notexample.net": false,
		"postgres://db.example.org,evil.example/db": false, "postgres://db.example.org/db?host=evil.example": false,
		"http://db.example.org.evil.example": false, "http://evil.example@db.example.org": true, "http://db.example.org@evil.example": false,
	} {
		check(t, limits("db.example.org", "*.Example.net"), text, ok)
	}
	for text, ok := range map[string]bool{
		"postgres://192.168.1.5/db": true, "http://192.168.1.6": false, "http://[fe80::1]": false,
		"http://a.name.that.may.lead.there":       true, // what it leads to is looked at when it is used
		"postgres://192.168.1.5,192.168.1.6:1/db": false, "postgres://192.168.1.5/db?host=192.168.1.6": false,
		"postgres://192.168.1.5/db?host=/run/postgresql": false, "postgres://192.168.1.5/db?passfile=/etc/passwd": false,
		"postgres://192.168.1.5/db?service=other": false, "postgres://192.168.1.5/db?sslmode=verify-full&sslkey=/etc/key": false,
		"postgres://192.168.1.5/db?sslmode=verify-full&sslrootcert=/etc/ca.pem": true,
	} {
		check(t, limits("192.168.1.5"), text, ok)
	}
	for text, ok := range map[string]bool{
		"http://any.example": true, "http://10.0.0.1": true, "http://127.0.0.1:8086": true, "http://169.254.169.254": false,
		"http://[::ffff:169.254.169.254]": false, "http://0.0.0.0:8086": false, "postgres://[fe80::1]:5432/db": false,
		"postgres://any.example/db?passfile=x": false,
	} {
		check(t, Limits{}, text, ok)
	}
}

func check(t *testing.T, l Limits, text string, ok bool) {
	t.Helper()
	a, _, err := Parse(text)
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	c, err := l.Limit(Connection{Address: a})
	if (err == nil) != ok || IsRefused(err) == ok {
		t.Errorf("%s: %v, want allowed %v", text, err, ok)
	}
	if c.Outbound == nil {
		t.Errorf("%s: its target would be opened without a policy", text)
	}
}

// FuzzParse looks for secrets that stay in an address: what Parse took out is not in what it leaves, and
// what it leaves means the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"http://user:hunter2@host:8086/prefix?kind=2", "postgres://u:p@a,b:1/db?sslmode=require&password=x", "sqlite:../x.db", "https://host#fragment",
		"postgres://u@h/db?password=x;y", "postgres://a:1,[::1]:2/db?password=x%", "http://h?token=%25x;",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, taken, err := Parse(text)
		if err != nil {
			return
		}
		if len(taken) > 8 && strings.Contains(a.Text, taken) && strings.Count(text, taken) == 1 {
			t.Errorf("%q is shown as %q, with the secret %q", text, a.Text, taken)
		}
		again, secret, err := Parse(a.Text)
		if err != nil || again.Text != a.Text || again.Kind != a.Kind || secret != "" {
			t.Errorf("%q became %q, and that %q with the secret %q, %v", text, a.Text, again.Text, secret, err)
		}
		if len(again.Hosts) != len(a.Hosts) {
			t.Errorf("%q names the hosts %q, and %q names %q", text, a.Hosts, a.Text, again.Hosts)
		}
	})
}
