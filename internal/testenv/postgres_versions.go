package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// PostgresVersions are the major versions that scripts/postgres.sh fetches, beside the one that the
// distribution brings.
func PostgresVersions() []string { return []string{"14", "17", "18"} }

// fetchedBin finds the binaries that scripts/postgres.sh has fetched, or ends the test.
func fetchedBin(t testing.TB, version string) string {
	t.Helper()
	if os.Getenv("TAILRACE_POSTGRES_VERSIONS") == "none" {
		t.Skipf("TAILRACE_POSTGRES_VERSIONS=none leaves PostgreSQL %s out", version)
	}
	dir := filepath.Join(cacheDir(), "postgres", version, "bin")
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
		return dir
	}
	if testing.Short() {
		t.Skipf("PostgreSQL %s was not fetched (scripts/postgres.sh)", version)
	}
	t.Fatalf("PostgreSQL %s is not in %s; run scripts/postgres.sh, or leave it out with TAILRACE_POSTGRES_VERSIONS=none or -short", version, dir)
	return ""
}

// cacheDir is where the scripts keep what they fetch, for all checkouts of the machine.
func cacheDir() string {
	if dir := os.Getenv("TAILRACE_CACHE"); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 { // servers do not run as root, and could not read what is in its home
		return "/var/cache/tailrace"
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "tailrace")
}
