// Package scripts_test tests the scripts that decide something.
package scripts_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDepsNamesThePackagesWhereItCannotInstall runs deps.sh as a user who is not root, on a machine that has
// nothing and no sudo, with and without a terminal.
func TestDepsNamesThePackagesWhereItCannotInstall(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	bin := t.TempDir()
	for name, body := range map[string]string{
		"id": "echo 1000", "dpkg-query": "exit 1", "apt-get": "exit 9", "grep": "exit 1",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!"+bash+"\n"+body+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, stdin := range map[string]*os.File{"terminal": terminal(t), "no terminal": nil} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(bash, "deps.sh")
			cmd.Env = []string{"PATH=" + bin}
			if stdin != nil {
				cmd.Stdin = stdin
			}
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "apt-get install --no-install-recommends gcc") {
				t.Errorf("%v, and it does not say what to install:\n%s", err, out)
			}
		})
	}
}

// TestServersThatCannotBeFetchedFailTheRun: nobody believes that a version was tested that was not.
func TestServersThatCannotBeFetchedFailTheRun(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash")
	}
	bin := t.TempDir()
	for name, body := range map[string]string{"npm": "echo no network >&2; exit 1", "node": "exit 1"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name, argument, versions string
		fails                    bool
		want                     string
	}{
		{"npm fails", "", "", true, "PostgreSQL 14 17 18"},
		{"nothing was fetched", "--check", "", true, ""},
		{"they are left out", "", "none", false, "NOT tested against PostgreSQL 14, 17 and 18"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("bash", "postgres.sh", test.argument)
			cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "TAILRACE_CACHE=" + t.TempDir(), "TAILRACE_POSTGRES_VERSIONS=" + test.versions}
			out, err := cmd.CombinedOutput()
			if (err != nil) != test.fails || !strings.Contains(string(out), test.want) {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}

// terminal returns the inner end of a new pseudo-terminal.
func terminal(t *testing.T) *os.File {
	t.Helper()
	outer, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { _ = outer.Close() })
	fd := int(outer.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	inner, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = inner.Close() })
	return inner
}
