package remote

import (
	"strings"
	"testing"
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
	} {
		if a, _, err := Parse(bad); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %+v, %v", bad, a, err)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	l := Limits{Hosts: []string{"db.example.org", "*.Example.net", "10.0.0.0/8", "fd00::/8", "192.168.1.5"}}
	for text, ok := range map[string]bool{
		"http://db.example.org:8086": true, "http://DB.example.ORG": true, "http://a.example.net": true, "http://a.b.example.net": true,
		"http://10.1.2.3:8086": true, "http://[fd00::1]:8086": true, "postgres://192.168.1.5/db": true, "postgres://10.0.0.1,10.0.0.2:5433/db": true,
		"http://example.net": false, "http://example.org": false, "http://11.0.0.1": false, "http://[fe80::1]": false, "http://notexample.net": false,
		"postgres://10.0.0.1,evil.example/db": false, "postgres://10.0.0.1/db?host=evil.example": false, "http://10.0.0.1.evil.example": false,
	} {
		a, _, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if err := l.Check(a); (err == nil) != ok {
			t.Errorf("%s: %v, want allowed %v", text, err, ok)
		}
	}
}

// FuzzParse looks for secrets that stay in an address: what Parse took out is not in what it leaves, and
// what it leaves means the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"http://user:hunter2@host:8086/prefix?kind=2", "postgres://u:p@a,b:1/db?sslmode=require&password=x", "sqlite:../x.db", "https://host#fragment",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, _, err := Parse(text)
		if err != nil {
			return
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
