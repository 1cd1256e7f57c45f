package metadata

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("TAILRACE_SOAK") == "" {
		_ = flag.Set("rapid.checks", "20") // each change is synced to the disk
	}
	goleak.VerifyTestMain(m)
}

var testKey = bytes.Repeat([]byte{7}, KeySize)

func open(tb testing.TB, path string, key []byte) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), Config{Path: path, Key: key})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func temporary(tb testing.TB) *Store {
	tb.Helper()
	return open(tb, filepath.Join(tb.TempDir(), "metadata.db"), testKey)
}

// plant stores an organisation with a bucket, a remote and a stream.
func plant(tb testing.TB, s *Store) (Org, Bucket, Remote, Stream) {
	tb.Helper()
	org, err := s.CreateOrg(tb.Context(), Org{Name: "plant"})
	must(tb, err)
	bucket, err := s.CreateBucket(tb.Context(), Bucket{OrgID: org.ID, Name: "raw"})
	must(tb, err)
	remote, err := s.CreateRemote(tb.Context(), Remote{OrgID: org.ID, Name: "cloud", URL: "https://example.org", Secret: "hunter2-hunter2"})
	must(tb, err)
	stream, err := s.CreateStream(tb.Context(), Stream{OrgID: org.ID, Name: "up", BucketID: bucket.ID, RemoteID: remote.ID})
	must(tb, err)
	return org, bucket, remote, stream
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
