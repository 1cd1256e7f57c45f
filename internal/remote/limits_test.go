package remote

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Files that come over the API stay within their directory, and leave the installation's own alone.
func TestLimitsOfFiles(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	data, elsewhere := filepath.Join(above, "data"), filepath.Join(above, "queues")
	for _, dir := range []string{data, elsewhere, filepath.Join(data, "sub"), filepath.Join(data, "replicationq")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.GOOS != "windows" {
		for link, to := range map[string]string{
			"out": elsewhere, "link.db": "there.db", "in": "sub", "sub/back": "../replicationq", "sub/up": "..",
		} {
			if err := os.Symlink(to, filepath.Join(data, link)); err != nil {
				t.Fatal(err)
			}
		}
	}
	of := func(sqliteDir string) Limits {
		return Limits{DataDir: data, SQLiteDir: sqliteDir, Reserved: []string{"metadata.db", "replicationq", "token", elsewhere}}
	}
	for _, c := range []struct{ name, dir, want string }{
		{"x.db", data, "x.db"},
		{"sub/x.db", data, "sub/x.db"},
		{"in/x.db", data, "sub/x.db"},
		{"sub/up/x.db", data, "x.db"},
		{filepath.Join(data, "x.db"), data, "x.db"},
		{"tokens.db", data, "tokens.db"},
		{"metadata.db", data, ""},
		{"METADATA.db", data, ""},
		{"sub/up/metadata.db", data, ""},
		{"metadata.db-x", data, ""},
		{"token", data, ""},
		{"replicationq/x.db", data, ""},
		{"sub/back/x.db", data, ""},
		{"replicationq-x", data, ""},
		{"out/x.db", data, ""},
		{"link.db", data, ""},
		{"../x.db", data, ""},
		{"x.db-wal", data, ""},
		{"x.db-journal", data, ""},
		{"file:x.db", data, "file:x.db"}, // within a directory, that is a name like another
		{"x%2f..%2fy.db", data, ""},
		{"x.db", elsewhere, ""}, // relative to the data directory, whatever is allowed
		{filepath.Join(elsewhere, "x.db"), data, ""},
		{filepath.Join(elsewhere, "x.db"), elsewhere, ""},
		{filepath.Join(elsewhere, "x.db"), above, ""},
		{filepath.Join(above, "x.db"), above, "../x.db"},
		{filepath.Join(data, "metadata.db"), above, ""},
		{"x.db", filepath.Join(above, "none"), ""},
	} {
		got, err := of(c.dir).Limit(Connection{Address: Address{Kind: SQLite, Path: c.name}})
		real, evalErr := filepath.EvalSymlinks(data)
		if evalErr != nil {
			t.Fatal(evalErr)
		}
		switch {
		case c.want == "" && (err == nil || IsRefused(err) == strings.HasSuffix(c.dir, "none")):
			t.Errorf("%q below %s becomes %q, %v", c.name, c.dir, got.Address.Path, err)
		case c.want != "" && (err != nil || got.Address.Path != filepath.Join(real, c.want)):
			t.Errorf("%q below %s becomes %q, %v, want %s", c.name, c.dir, got.Address.Path, err, c.want)
		case err != nil && !filepath.IsAbs(c.name) && strings.Contains(err.Error(), above):
			t.Errorf("%q: the error tells where the directory is: %v", c.name, err)
		}
	}
}

// One file is one target, however it is written; an address that the operator gave shares no target with one
// that came over the API.
func TestKeysOfConnections(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := Limits{DataDir: dir, SQLiteDir: dir}
	key := func(text string) string {
		a, _, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.Limit(Connection{Address: a})
		if err != nil {
			t.Fatal(err)
		}
		return c.Key()
	}
	if key("sqlite:x.db") != key("sqlite:"+filepath.Join(dir, "x.db")) || key("sqlite:x.db") == key("sqlite:y.db") {
		t.Error("files are not told apart by where they are")
	}
	a, _, err := Parse("postgres://db.example.org/db")
	if err != nil {
		t.Fatal(err)
	}
	if key(a.Text) == (Connection{Address: a}).Key() {
		t.Error("what the operator gave is shared with what came over the API")
	}
}
