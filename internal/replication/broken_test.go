package replication

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
)

func itoa(n int) string { return strconv.Itoa(n) }

// TestSecretThatIsMissing starts with another key: the stream waits, writes are taken, and the secret
// heals it.
func TestSecretThatIsMissing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r, err := s.service.CreateRemote(t.Context(), metadata.Remote{OrgID: s.org.ID, Name: "a", URL: "sqlite:a.db", Secret: "hunter2"})
	must(t, err)
	broken, whole := s.stream("broken", r), s.stream("whole", s.file("b"))
	s.stop()
	s.key = bytes.Repeat([]byte{2}, metadata.KeySize)
	s.start()
	s.point(1)
	s.settled(whole.ID)
	st := s.service.Status(t.Context(), broken.ID)
	if st.State != StateSecretMissing || st.Mode != "stopped" || !strings.Contains(st.Advice, "remoteAPIToken") || !st.Stalled {
		t.Errorf("the status is %+v", st)
	}
	_, err = s.service.UpdateRemote(t.Context(), r.ID, func(r *metadata.Remote) error { r.Secret = "fresh-secret-7"; return nil })
	must(t, err)
	s.settled(broken.ID)
	if n := s.rows("a", countM); n != 1 {
		t.Errorf("%d points, want 1", n)
	}
	if strings.Contains(s.log.String(), "hunter2") || strings.Contains(s.log.String(), "fresh-secret-7") {
		t.Error("a secret is in the log")
	}
}

// TestTargetThatCannotBeOpened is a state; correcting the remote is all that it takes.
func TestTargetThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r, err := s.service.CreateRemote(t.Context(), metadata.Remote{OrgID: s.org.ID, Name: "a", URL: "sqlite:a.db", Secret: "refuse"})
	must(t, err)
	st := s.stream("up", r)
	s.point(1)
	for range 2 {
		got := s.service.Status(t.Context(), st.ID)
		if got.State != StateTargetBroken || !strings.Contains(got.Advice, "correct them") || got.UnsentBytes == 0 {
			t.Errorf("the status is %+v", got)
		}
		s.restart()
	}
	_, err = s.service.UpdateRemote(t.Context(), r.ID, func(r *metadata.Remote) error { r.Secret = "fine"; return nil })
	must(t, err)
	s.settled(st.ID)
}

// TestQueueThatCannotBeRead refuses the writes of its bucket and of no other, until it is mended.
func TestQueueThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	st := s.stream("up", s.file("a"))
	s.point(1)
	s.settled(st.ID)
	other, err := s.service.CreateBucket(t.Context(), metadata.Bucket{OrgID: s.org.ID, Name: "other"})
	must(t, err)
	whole, err := s.service.CreateStream(t.Context(), metadata.Stream{OrgID: s.org.ID, Name: "whole", BucketID: other.ID, RemoteID: st.RemoteID})
	must(t, err)
	s.stop()
	dir := filepath.Join(s.dir, "replicationq", st.ID.String())
	must(t, os.Rename(dir, dir+"-aside"))
	must(t, os.WriteFile(dir, []byte("no directory"), 0o600))
	s.start()
	if got := s.service.Status(t.Context(), st.ID); got.State != StateQueueBroken || got.Advice == "" || !got.Stalled {
		t.Errorf("the status is %+v", got)
	}
	err = s.write("m v=2i 2\n")
	if broken := new(influxlogical.BrokenError); !errors.As(err, &broken) || broken.Stream != "up" {
		t.Errorf("a write to its bucket: %v", err)
	}
	mine := s.bucket
	s.bucket = other
	s.point(3)
	s.settled(whole.ID)
	s.bucket = mine
	must(t, os.Remove(dir))
	must(t, os.Rename(dir+"-aside", dir))
	_, err = s.service.Pause(t.Context(), st.ID, false)
	must(t, err)
	s.point(4)
	s.settled(st.ID)
	if n := s.rows("a", countM); n != 3 {
		t.Errorf("%d points, want 3", n)
	}
}

// TestRemotesThatAreNotAllowed are refused when they are made, and stop when the operator changes his mind.
func TestRemotesThatAreNotAllowed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	must(t, os.MkdirAll(filepath.Join(s.dir, "sub"), 0o700))
	for url, ok := range map[string]bool{
		"sqlite:fine.db": true, "sqlite:sub/fine.db": true, "sqlite:" + filepath.Join(s.dir, "too.db"): true,
		"sqlite:../escape.db": false, "sqlite:/etc/passwd": false, "sqlite:metadata.db": false, "sqlite:METADATA.DB-journal": false,
		"sqlite:replicationq/x": false, "sqlite:sub": false, "sqlite:": false, "ftp://host/": false, "nonsense": false,
		"http://host:8086?bucket=x": false,
	} {
		_, err := s.service.CreateRemote(t.Context(), metadata.Remote{OrgID: s.org.ID, Name: url, URL: url})
		if invalid := new(metadata.InvalidError); (err == nil) != ok || !ok && !errors.As(err, &invalid) {
			t.Errorf("%s: %v", url, err)
		}
	}
	must(t, os.Symlink("/etc", filepath.Join(s.dir, "link")))
	if _, err := s.service.CreateRemote(t.Context(), metadata.Remote{OrgID: s.org.ID, Name: "link", URL: "sqlite:link/x.db"}); err == nil {
		t.Error("a symbolic link leads out of the directory")
	}
	r, err := s.service.CreateRemote(t.Context(), metadata.Remote{OrgID: s.org.ID, Name: "secret", URL: "http://me:hunter2@host:8086/prefix"})
	if err != nil || r.Secret != "hunter2" || r.URL != "http://me@host:8086/prefix" {
		t.Errorf("a password in an address: %+v, %v", r, err)
	}
}

// TestTargetThatComesBackHealsByItself has the disk of a remote's file mounted after the server has started.
func TestTargetThatComesBackHealsByItself(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	sub := filepath.Join(s.dir, "sub")
	must(t, os.Mkdir(sub, 0o700))
	st := s.stream("a", s.file("sub/a"))
	s.point(1)
	s.settled(st.ID)
	s.stop()
	must(t, os.Rename(sub, sub+"-away"))
	s.start()
	s.point(2)
	if got := s.service.Status(t.Context(), st.ID); got.State != StateTargetBroken || got.Advice == "" {
		t.Errorf("without its directory it is %s: %s; %s", got.State, got.Reason, got.Advice)
	}
	must(t, os.Rename(sub+"-away", sub))
	s.settled(st.ID)
	if n := s.rows("sub/a", countM); n != 2 {
		t.Errorf("%d points, want 2", n)
	}
}

// TestFlushTriesABrokenTarget, where it would wait for longer than the test does.
func TestFlushTriesABrokenTarget(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.stop()
	s.patient = true
	s.start()
	s.service.config.Loop.RetryDelay, s.service.config.Loop.RetryMax = 1000*time.Hour, 1000*time.Hour
	sub := filepath.Join(s.dir, "sub")
	must(t, os.Mkdir(sub, 0o700))
	r := s.file("sub/a")
	must(t, os.Remove(sub))
	st := s.stream("a", r)
	s.point(1)
	must(t, os.Mkdir(sub, 0o700))
	must(t, s.service.Flush(t.Context(), st.ID))
	s.settled(st.ID)
}

// TestPausedBrokenStreamIsPaused, whether its remote has been mended or not.
func TestPausedBrokenStreamIsPaused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.file("a")
	st := s.stream("a", r)
	_, err := s.service.UpdateRemote(t.Context(), r.ID, func(r *metadata.Remote) error { r.Secret = "refuse"; return nil })
	must(t, err)
	s.until(st.ID, "it is not broken", func(st Status) bool { return st.State == StateTargetBroken })
	for _, secret := range []string{"", "good"} {
		_, err = s.service.Pause(t.Context(), st.ID, true)
		must(t, err)
		if secret != "" {
			_, err = s.service.UpdateRemote(t.Context(), r.ID, func(r *metadata.Remote) error { r.Secret = secret; return nil })
			must(t, err)
		}
		if got := s.service.Status(t.Context(), st.ID); got.State != StatePaused || got.Mode != "paused" {
			t.Errorf("mode %s, state %s: %s", got.Mode, got.State, got.Reason)
		}
	}
	_, err = s.service.Pause(t.Context(), st.ID, false)
	must(t, err)
	s.point(1)
	s.settled(st.ID)
}

// TestBucketOfTheNamedOrganization has the client name one that has no such bucket.
func TestBucketOfTheNamedOrganization(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other, err := s.service.CreateOrg(t.Context(), metadata.Org{Name: "other"})
	must(t, err)
	for _, ref := range []string{"bucket", s.bucket.ID.String()} {
		for org, found := range map[string]bool{"": true, "org": true, s.org.ID.String(): true, "unknown": true, "other": false, other.ID.String(): false} {
			if b, err := s.service.FindBucket(org, ref); (err == nil) != found || found && b.ID != s.bucket.ID {
				t.Errorf("bucket %s of %q: %+v, %v", ref, org, b, err)
			}
		}
	}
}
