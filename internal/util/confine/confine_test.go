package confine

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// place is a directory for files, with a secret beside it and ways that lead there.
func place(t testing.TB) (dir, secret string) {
	t.Helper()
	above := t.TempDir()
	dir, secret = filepath.Join(above, "files"), filepath.Join(above, "secret.key")
	for _, d := range []string{dir, filepath.Join(dir, "sub"), filepath.Join(above, "files-too"), filepath.Join(dir, "a.db.d")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{secret, filepath.Join(dir, "there.db"), filepath.Join(dir, "sub", "there.db")} {
		if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.GOOS != "windows" {
		for link, to := range map[string]string{
			"up": "..", "out.db": secret, "dangling.db": filepath.Join(above, "new"), "in": "sub", "in.db": "there.db", "sub/root": "/",
		} {
			if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir, secret
}

func TestPath(t *testing.T) {
	t.Parallel()
	dir, secret := place(t)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"new.db":                        "new.db",
		"there.db":                      "there.db",
		"./there.db":                    "there.db",
		"sub/new.db":                    "sub/new.db",
		"sub//new.db":                   "sub/new.db",
		"in/there.db":                   "sub/there.db",
		"ünï code.db":                   "ünï code.db",
		"..db":                          "..db",
		filepath.Join(dir, "new.db"):    "new.db",
		filepath.Join(dir, "sub/x.db"):  "sub/x.db",
		dir + "/./x.db":                 "x.db",
		"":                              "",
		".":                             "",
		"..":                            "",
		"sub/":                          "",
		"sub":                           "",
		"a.db.d":                        "",
		"../secret.key":                 "",
		"../files/there.db":             "",
		"sub/../there.db":               "",
		"in/../there.db":                "",
		"sub/../../secret.key":          "",
		secret:                          "",
		dir:                             "",
		dir + "-too/x.db":               "",
		dir + "/../secret.key":          "",
		"/etc/passwd":                   "",
		"up/secret.key":                 "",
		"up/files/there.db":             "sub of nothing",
		"out.db":                        "",
		"dangling.db":                   "",
		"in.db":                         "",
		"sub/root/etc/passwd":           "",
		"nodir/x.db":                    "",
		"x.db\x00.txt":                  "",
		"x\n.db":                        "",
		"file:x.db":                     "",
		":memory:":                      "",
		"x.db?vfs=other":                "",
		"x%2f..%2f.db":                  "",
		"x.db#y":                        "",
		"there.db-wal":                  "",
		"there.db-SHM":                  "",
		"sub/there.db-journal":          "",
		strings.Repeat("../", 50) + "x": "",
	} {
		got, err := Path(dir, name)
		if want == "sub of nothing" { // It leads out and in again, to a file that is below: what counts is where it leads.
			want = "there.db"
		}
		var outside *OutsideError
		switch {
		case want == "" && !errors.As(err, &outside):
			t.Errorf("%q becomes %q, %v", name, got, err)
		case want != "" && (err != nil || got != filepath.Join(real, want)):
			t.Errorf("%q becomes %q, %v, want %s", name, got, err, want)
		case err != nil && !strings.Contains(name, dir) && strings.Contains(err.Error(), dir):
			t.Errorf("%q: the error tells where the directory is: %v", name, err)
		}
	}
}

func TestWithoutADirectoryNothingIsAllowed(t *testing.T) {
	t.Parallel()
	var outside *OutsideError
	if got, err := Path("", "x.db"); !errors.As(err, &outside) || !strings.Contains(err.Error(), "--sqliteDir") {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Path(filepath.Join(t.TempDir(), "none"), "x.db"); err == nil {
		t.Errorf("a directory that is not there: %q", got)
	}
}

func TestDirectoryMayBeALinkItself(t *testing.T) {
	t.Parallel()
	dir, _ := place(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip("this system has no symbolic links: ", err)
	}
	for _, name := range []string{"x.db", filepath.Join(link, "x.db"), filepath.Join(dir, "x.db")} {
		got, err := Path(link, name)
		if err != nil || filepath.Base(got) != "x.db" || strings.Contains(got, "link") {
			t.Errorf("%q becomes %q, %v", name, got, err)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, name := range []string{"a", "../a", "sub/root/../x", "up/../../x", "in/./x", "/x", "a-wal"} {
		f.Add(name)
	}
	dir, _ := place(f)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := Path(dir, name)
		if err != nil {
			return
		}
		if !strings.HasPrefix(got, real+string(filepath.Separator)) || strings.Contains(got, "..") && !strings.Contains(name, "..") {
			t.Fatalf("%q becomes %q", name, got)
		}
		// What it is when it is opened is below the directory too.
		if info, err := os.Lstat(got); err == nil && !info.Mode().IsRegular() {
			t.Fatalf("%q becomes %q, which is %s", name, got, info.Mode())
		}
		if parent, err := filepath.EvalSymlinks(filepath.Dir(got)); err != nil || parent != filepath.Dir(got) {
			t.Fatalf("%q becomes %q, which leads to %q, %v", name, got, parent, err)
		}
	})
}
