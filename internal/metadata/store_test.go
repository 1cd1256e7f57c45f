package metadata

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
)

func is[T error](err error) bool {
	var e T
	return errors.As(err, &e)
}

func TestWhatIsStoredComesBackAfterReopening(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "metadata.db")
	s, err := Open(t.Context(), Config{Path: path, Key: testKey})
	must(t, err)
	org, bucket, remote, _ := plant(t, s)
	text, size, policy, window, shards, document := "what it is", int64(1<<20), "dropOldest", 3*time.Minute, 7, `{"a":1}`
	remote, err = s.UpdateRemote(t.Context(), remote.ID, func(r *Remote) error {
		r.Description, r.RemoteOrgID, r.AllowInsecureTLS, r.Secret = &text, &text, true, "another secret"
		return nil
	})
	must(t, err)
	full, err := s.CreateStream(t.Context(), Stream{
		ID: s.NewStreamID(), OrgID: org.ID, Name: "full", Description: &text, BucketID: bucket.ID, RemoteID: remote.ID,
		RemoteBucketID: &text, RemoteBucketName: &text, MaxQueueBytes: &size, MaxAgeSeconds: 60, QueueFullPolicy: &policy, OnReject: &policy,
		BackfillWindow: &window, FanShards: &shards, BytesInFlight: &size, Filter: &document, Paused: true, Opened: true,
	})
	must(t, err)
	token, secret, err := s.CreateToken(t.Context(), Token{
		OrgID: org.ID, Description: "telegraf", Active: true, Permissions: []Permission{{Action: "write", Type: "buckets", ID: bucket.ID}},
	})
	must(t, err)
	must(t, s.Close())

	s = open(t, path, testKey)
	if got, err := s.Remote(t.Context(), remote.ID); err != nil || !reflect.DeepEqual(got, remote) || got.Secret != "another secret" {
		t.Errorf("the remote came back as %+v, %v; want %+v", got, err, remote)
	}
	if got, err := s.Stream(t.Context(), full.ID); err != nil || !reflect.DeepEqual(got, full) {
		t.Errorf("the stream came back as %+v, %v; want %+v", got, err, full)
	}
	if got, err := s.Token(t.Context(), token.ID); err != nil || !reflect.DeepEqual(got, token) || got.Sum != sha256.Sum256([]byte(secret)) {
		t.Errorf("the token came back as %+v, %v; want %+v", got, err, token)
	}
}

func TestErrorsSayWhatTheCallerDidWrong(t *testing.T) {
	t.Parallel()
	s := temporary(t)
	org, bucket, remote, stream := plant(t, s)
	other, err := s.CreateOrg(t.Context(), Org{Name: "other"})
	must(t, err)
	ctx := t.Context()
	fails := func(_ any, err error) error { return err }
	for _, c := range []struct {
		name string
		err  error
		is   func(error) bool
		says string
	}{
		{"org name taken", fails(s.CreateOrg(ctx, Org{Name: "plant"})), is[*ConflictError], `"plant"`},
		{"bucket name taken", fails(s.CreateBucket(ctx, Bucket{OrgID: org.ID, Name: "raw"})), is[*ConflictError], "raw"},
		{"remote name taken", fails(s.CreateRemote(ctx, Remote{OrgID: org.ID, Name: "cloud", URL: "x"})), is[*ConflictError], "cloud"},
		{"stream name taken", fails(s.CreateStream(ctx, Stream{OrgID: org.ID, Name: "up", BucketID: bucket.ID, RemoteID: remote.ID})), is[*ConflictError], "up"},
		{"rename to a taken name", fails(s.UpdateOrg(ctx, other.ID, func(o *Org) error { o.Name = "plant"; return nil })), is[*ConflictError], "plant"},
		{"empty name", fails(s.CreateOrg(ctx, Org{Name: " "})), is[*InvalidError], "name"},
		{"control character", fails(s.CreateOrg(ctx, Org{Name: "a\nb"})), is[*InvalidError], "name"},
		{"long name", fails(s.CreateOrg(ctx, Org{Name: strings.Repeat("x", 2000)})), is[*InvalidError], "name"},
		{"bucket of no org", fails(s.CreateBucket(ctx, Bucket{OrgID: 5, Name: "x"})), is[*NotFoundError], "organization"},
		{"remote of no org", fails(s.CreateRemote(ctx, Remote{OrgID: 5, Name: "x", URL: "x"})), is[*NotFoundError], "organization"},
		{"stream of no bucket", fails(s.CreateStream(ctx, Stream{OrgID: org.ID, Name: "x", BucketID: 5, RemoteID: remote.ID})), is[*NotFoundError], "bucket"},
		{"stream of no remote", fails(s.CreateStream(ctx, Stream{OrgID: org.ID, Name: "x", BucketID: bucket.ID, RemoteID: 5})), is[*NotFoundError], "remote"},
		{"stream across orgs", fails(s.CreateStream(ctx, Stream{OrgID: other.ID, Name: "x", BucketID: bucket.ID, RemoteID: remote.ID})), is[*InvalidError], "another organization"},
		{"negative age", fails(s.CreateStream(ctx, Stream{OrgID: org.ID, Name: "x", BucketID: bucket.ID, RemoteID: remote.ID, MaxAgeSeconds: -1})), is[*InvalidError], "maxAgeSeconds"},
		{"remote without address", fails(s.CreateRemote(ctx, Remote{OrgID: org.ID, Name: "x"})), is[*InvalidError], "remoteURL"},
		{"no such remote", fails(s.Remote(ctx, 5)), is[*NotFoundError], "0000000000000005"},
		{"no such stream", fails(s.Stream(ctx, 5)), is[*NotFoundError], "0000000000000005"},
		{"no such token", s.DeleteToken(ctx, 5), is[*NotFoundError], "authorization"},
		{"org in use", s.DeleteOrg(ctx, org.ID), is[*InUseError], "replication up"},
		{"bucket in use", s.DeleteBucket(ctx, bucket.ID), is[*InUseError], "replication up"},
		{"remote in use", s.DeleteRemote(ctx, remote.ID), is[*InUseError], "replication up"},
	} {
		if c.err == nil || !c.is(c.err) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: got %v, want an error of another type that says %s", c.name, c.err, c.says)
		}
	}
	must(t, s.DeleteOrg(ctx, other.ID))
	if _, err := s.RetireStream(ctx, stream.ID); err != nil {
		t.Fatal(err)
	}
	must(t, s.DeleteStream(ctx, stream.ID))
	must(t, s.DeleteRemote(ctx, remote.ID))
	must(t, s.DeleteBucket(ctx, bucket.ID))
	must(t, s.DeleteOrg(ctx, org.ID))
}

// TestFailedChangeLeavesNothing lets changes of several rows fail at each of them.
func TestFailedChangeLeavesNothing(t *testing.T) {
	t.Parallel()
	s := temporary(t)
	org, bucket, remote, stream := plant(t, s)
	good := Seed{Org: Org{Name: "o"}, Bucket: Bucket{Name: "b"}, Remote: Remote{Name: "r", URL: "u"}, Stream: Stream{Name: "s"}}
	for name, spoil := range map[string]func(*Seed){
		"org":    func(d *Seed) { d.Org.Name = "plant" },
		"bucket": func(d *Seed) { d.Bucket.Name = "" },
		"remote": func(d *Seed) { d.Remote.URL = "" },
		"stream": func(d *Seed) { d.Stream.Name = "" },
	} {
		bad := good
		spoil(&bad)
		if _, err := s.Seed(t.Context(), bad); err == nil {
			t.Errorf("%s: no error", name)
		}
		if all, err := s.Orgs(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("%s: there are %d organisations, %v; want the one from before", name, len(all), err)
		}
	}
	refused := errors.New("refused")
	_, err := s.UpdateStream(t.Context(), stream.ID, func(r *Stream) error { r.Name = "changed"; return refused })
	if now, _ := s.Stream(t.Context(), stream.ID); !errors.Is(err, refused) || now.Name != "up" {
		t.Errorf("the stream is called %q, %v", now.Name, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.RetireBucket(ended, bucket.ID); err == nil {
		t.Error("a call whose context has ended succeeds")
	}
	if now, err := s.Stream(t.Context(), stream.ID); err != nil || now.Deleting {
		t.Errorf("the stream is half deleted: %+v, %v", now, err)
	}
	_, _ = org, remote
}

func TestSeedHappensOnce(t *testing.T) {
	t.Parallel()
	s := temporary(t)
	seed := Seed{Org: Org{Name: "default"}, Bucket: Bucket{Name: "default"}, Remote: Remote{Name: "default", URL: "sqlite:target.db"}, Stream: Stream{Name: "default"}}
	first, err := s.Seed(t.Context(), seed)
	must(t, err)
	list, err := s.Streams(t.Context(), StreamFilter{})
	if err != nil || len(list) != 1 || first != (Seeded{list[0].RemoteID, list[0].ID}) {
		t.Fatalf("%+v, %v", list, err)
	}
	_, err = s.RetireStream(t.Context(), list[0].ID)
	must(t, err)
	must(t, s.DeleteStream(t.Context(), list[0].ID))
	again, err := s.Seed(t.Context(), seed)
	if err != nil || again != first {
		t.Errorf("the second time: %v, %v; want %v", again, err, first)
	}
	if list, err := s.Streams(t.Context(), StreamFilter{}); err != nil || len(list) != 0 {
		t.Errorf("what was deleted is back: %+v, %v", list, err)
	}
}

func TestRetiredStreamsFreeTheirNames(t *testing.T) {
	t.Parallel()
	s := temporary(t)
	org, bucket, remote, stream := plant(t, s)
	of, err := s.RetireBucket(t.Context(), bucket.ID)
	must(t, err)
	if len(of) == 0 {
		t.Error("the streams of the bucket are not told")
	}
	if _, err := s.Stream(t.Context(), stream.ID); !is[*NotFoundError](err) {
		t.Errorf("a stream of the retired bucket is there: %v", err)
	}
	left, err := s.Streams(t.Context(), StreamFilter{Deleting: true})
	if err != nil || len(left) != 1 || left[0].ID != stream.ID {
		t.Errorf("what is left to be deleted: %+v, %v", left, err)
	}
	if _, err := s.CreateStream(t.Context(), Stream{OrgID: org.ID, Name: "x", BucketID: bucket.ID, RemoteID: remote.ID}); !is[*NotFoundError](err) {
		t.Errorf("a stream for a retired bucket: %v", err)
	}
	fresh, err := s.CreateBucket(t.Context(), Bucket{OrgID: org.ID, Name: "raw"})
	must(t, err)
	_, err = s.CreateStream(t.Context(), Stream{OrgID: org.ID, Name: "up", BucketID: fresh.ID, RemoteID: remote.ID})
	must(t, err)
}

// TestCopiedDatabaseGivesNothingAway looks for secrets in the files, and reads them with another key.
func TestCopiedDatabaseGivesNothingAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "metadata.db")
	s, err := Open(t.Context(), Config{Path: path, Key: testKey})
	must(t, err)
	org, _, remote, _ := plant(t, s)
	_, token, err := s.CreateToken(t.Context(), Token{OrgID: org.ID, Active: true})
	must(t, err)
	must(t, s.Close())
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		if bytes.Contains(content, []byte("hunter2")) || bytes.Contains(content, []byte(token)) {
			t.Errorf("%s holds a secret", e.Name())
		}
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	s = open(t, path, bytes.Repeat([]byte{8}, KeySize))
	got, err := s.Remote(t.Context(), remote.ID)
	if err != nil || !got.SecretMissing || got.Secret != "" {
		t.Errorf("with another key: %+v, %v", got, err)
	}
	// What has nothing to do with the secret can be changed, and the secret is still there for its key.
	got, err = s.UpdateRemote(t.Context(), remote.ID, func(r *Remote) error { r.Name = "attic"; return nil })
	if err != nil || !got.SecretMissing {
		t.Errorf("renamed with another key: %+v, %v", got, err)
	}
	if got, err := open(t, path, testKey).Remote(t.Context(), remote.ID); err != nil || got.Secret != "hunter2-hunter2" || got.Name != "attic" {
		t.Errorf("with the key: %+v, %v", got, err)
	}
	// A new secret heals it.
	got, err = s.UpdateRemote(t.Context(), remote.ID, func(r *Remote) error { r.Secret = "new"; return nil })
	if err != nil || got.SecretMissing || got.Secret != "new" {
		t.Errorf("with a new secret: %+v, %v", got, err)
	}
}

// TestSecretIsBoundToItsRemote moves a secret to a remote at another address, as someone could who
// may write the file and not read the key.
func TestSecretIsBoundToItsRemote(t *testing.T) {
	t.Parallel()
	s := temporary(t)
	org, _, remote, _ := plant(t, s)
	evil, err := s.CreateRemote(t.Context(), Remote{OrgID: org.ID, Name: "evil", URL: "http://evil.example", Secret: "x"})
	must(t, err)
	_, err = s.db.Exec("UPDATE remotes SET secret = (SELECT secret FROM remotes WHERE id = ?) WHERE id = ?", int64(remote.ID), int64(evil.ID))
	must(t, err)
	if got, err := s.Remote(t.Context(), evil.ID); err != nil || !got.SecretMissing || got.Secret != "" {
		t.Errorf("the secret went along: %+v, %v", got, err)
	}
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "metadata.db")
	s := open(t, path, testKey)
	plant(t, s)
	// A migration that fails leaves the version before, whole.
	bad := append(append([]string{}, migrations...), "CREATE TABLE half (x INTEGER) STRICT; CREATE TABLE orgs (x INTEGER)")
	if err := migrate(t.Context(), s.db, bad); err == nil {
		t.Fatal("no error")
	}
	var n int
	must(t, s.db.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").Scan(&n))
	if n != 0 {
		t.Error("half of a migration is there")
	}
	// One that works adds to what is there, once.
	good := append(append([]string{}, migrations...), "CREATE TABLE whole (x INTEGER) STRICT")
	for range 2 {
		must(t, migrate(t.Context(), s.db, good))
	}
	if orgs, err := s.Orgs(t.Context()); err != nil || len(orgs) != 1 {
		t.Errorf("%d organisations, %v", len(orgs), err)
	}
	// The older version does not touch what a newer one wrote.
	_, err := Open(t.Context(), Config{Path: path, Key: testKey})
	if err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("got %v, want an error that says that a newer version wrote it", err)
	}
}

func TestDamagedFileIsAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "metadata.db")
	must(t, os.WriteFile(path, []byte(strings.Repeat("this is no database ", 500)), 0o600))
	if _, err := Open(t.Context(), Config{Path: path, Key: testKey}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error that names the file", err)
	}
}
