package installation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pkg/errors"
)

func TestInstallationKeepsItsIdentityAndToken(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	first := open(t, dir)
	token, path, err := first.Token()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v, %v; want mode 0600", info.Mode(), err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, dir)
	if second.ID() != first.ID() {
		t.Errorf("the id changed from %s to %s", first.ID(), second.ID())
	}
	if again, _, err := second.Token(); err != nil || again != token {
		t.Errorf("the token changed: %v", err)
	}
}

func TestSecretKeyStays(t *testing.T) {
	t.Parallel()
	in := open(t, t.TempDir())
	key, err := in.SecretKey()
	if err != nil || len(key) != secretKeySize {
		t.Fatalf("%d bytes, %v", len(key), err)
	}
	if info, err := os.Stat(in.Path("secret.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v; want mode 0600", info.Mode(), err)
	}
	if again, err := in.SecretKey(); err != nil || string(again) != string(key) {
		t.Errorf("the key changed: %v", err)
	}
	if err := os.WriteFile(in.Path("secret.key"), []byte("half a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := in.SecretKey(); err == nil || !strings.Contains(err.Error(), "secret.key") {
		t.Errorf("a damaged key: %v, want an error that names the file", err)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	_, err := Open(dir)
	var locked *LockedError
	if !errors.As(err, &locked) || !strings.Contains(err.Error(), "--dataDir") {
		t.Errorf("got %v, want a LockedError that says what to do", err)
	}
}

func TestDamagedIdentityIsNotReplaced(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty": "", "no json": "{", "no id": `{"layout":1}`, "newer": `{"layout":99,"id":"5c2f6a9e-6d0c-4d6b-9d6e-1f5a0c3b7a11"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "installation.json")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if in, err := Open(dir); err == nil {
				t.Errorf("opened as %s, want an error", in.ID())
			}
			if now, err := os.ReadFile(path); err != nil || string(now) != content {
				t.Errorf("the file was changed to %q, %v", now, err)
			}
		})
	}
}

func open(t *testing.T, dir string) *Installation {
	t.Helper()
	in, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	return in
}
