package metadata

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestStoreBehavesLikeItsModel does random things to a store, opening it anew now and then, and to a few
// maps, and compares. rapid prints how to replay a failure.
func TestStoreBehavesLikeItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "tailrace-metadata-")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		m := &model{t: t, path: filepath.Join(dir, "metadata.db"), buckets: map[ID]string{}, remotes: map[ID][2]string{}, streams: map[ID]modelStream{}}
		m.reopen()
		defer func() { _ = m.s.Close() }()
		org, err := m.s.CreateOrg(t.Context(), Org{Name: "org"})
		if err != nil {
			t.Fatal(err)
		}
		m.org = org.ID
		t.Repeat(map[string]func(*rapid.T){
			"create bucket": m.createBucket, "delete bucket": m.deleteBucket, "create remote": m.createRemote, "update remote": m.updateRemote,
			"delete remote": m.deleteRemote, "create stream": m.createStream, "update stream": m.updateStream, "delete stream": m.deleteStream,
			"reopen": func(*rapid.T) { m.reopen() }, "": m.check,
		})
	})
}

type modelStream struct {
	name           string
	bucket, remote ID
}

type model struct {
	t       *rapid.T
	path    string
	s       *Store
	org     ID
	buckets map[ID]string
	remotes map[ID][2]string // name, secret
	streams map[ID]modelStream
}

func (m *model) reopen() {
	if m.s != nil {
		if err := m.s.Close(); err != nil {
			m.t.Fatal(err)
		}
	}
	var err error
	if m.s, err = Open(m.t.Context(), Config{Path: m.path, Key: testKey}); err != nil {
		m.t.Fatal(err)
	}
}

var names = rapid.SampledFrom([]string{"a", "b", "c", "ä b", "'\""})

// pick draws an ID: mostly of something that is there.
func pick[V any](t *rapid.T, from map[ID]V) ID {
	return rapid.SampledFrom(append(slices.Sorted(maps.Keys(from)), 99)).Draw(t, "id")
}

func expect(t *rapid.T, err error, want bool, what string) {
	if (err == nil) != want {
		t.Fatalf("%s: got %v, want success %v", what, err, want)
	}
	var nf *NotFoundError
	var cf *ConflictError
	var iu *InUseError
	if err != nil && !errors.As(err, &nf) && !errors.As(err, &cf) && !errors.As(err, &iu) {
		t.Fatalf("%s: an error of an unknown kind: %v", what, err)
	}
}

func (m *model) createBucket(t *rapid.T) {
	name := names.Draw(t, "name")
	b, err := m.s.CreateBucket(t.Context(), Bucket{OrgID: m.org, Name: name})
	expect(t, err, !slices.Contains(slices.Collect(maps.Values(m.buckets)), name), "create bucket")
	if err == nil {
		m.buckets[b.ID] = name
	}
}

func (m *model) deleteBucket(t *rapid.T) {
	id := pick(t, m.buckets)
	_, ok := m.buckets[id]
	for _, s := range m.streams {
		ok = ok && s.bucket != id
	}
	expect(t, m.s.DeleteBucket(t.Context(), id), ok, "delete bucket")
	if ok {
		delete(m.buckets, id)
	}
}

func (m *model) remoteNamed(name string) (ID, bool) {
	for id, r := range m.remotes {
		if r[0] == name {
			return id, true
		}
	}
	return 0, false
}

func (m *model) createRemote(t *rapid.T) {
	name, secret := names.Draw(t, "name"), rapid.String().Draw(t, "secret")
	r, err := m.s.CreateRemote(t.Context(), Remote{OrgID: m.org, Name: name, URL: "http://x", Secret: secret})
	_, taken := m.remoteNamed(name)
	expect(t, err, !taken, "create remote")
	if err == nil {
		m.remotes[r.ID] = [2]string{name, secret}
	}
}

func (m *model) updateRemote(t *rapid.T) {
	id, name, secret := pick(t, m.remotes), names.Draw(t, "name"), rapid.String().Draw(t, "secret")
	_, err := m.s.UpdateRemote(t.Context(), id, func(r *Remote) error { r.Name, r.Secret = name, secret; return nil })
	_, there := m.remotes[id]
	by, taken := m.remoteNamed(name)
	expect(t, err, there && (!taken || by == id), "update remote")
	if err == nil {
		m.remotes[id] = [2]string{name, secret}
	}
}

func (m *model) deleteRemote(t *rapid.T) {
	id := pick(t, m.remotes)
	_, ok := m.remotes[id]
	for _, s := range m.streams {
		ok = ok && s.remote != id
	}
	expect(t, m.s.DeleteRemote(t.Context(), id), ok, "delete remote")
	if ok {
		delete(m.remotes, id)
	}
}

func (m *model) free(name string, but ID) bool {
	for id, s := range m.streams {
		if s.name == name && id != but {
			return false
		}
	}
	return true
}

func (m *model) createStream(t *rapid.T) {
	s := modelStream{names.Draw(t, "name"), pick(t, m.buckets), pick(t, m.remotes)}
	made, err := m.s.CreateStream(t.Context(), Stream{OrgID: m.org, Name: s.name, BucketID: s.bucket, RemoteID: s.remote})
	_, bucket := m.buckets[s.bucket]
	_, remote := m.remotes[s.remote]
	expect(t, err, bucket && remote && m.free(s.name, 0), "create stream")
	if err == nil {
		m.streams[made.ID] = s
	}
}

func (m *model) updateStream(t *rapid.T) {
	id, name, remote := pick(t, m.streams), names.Draw(t, "name"), pick(t, m.remotes)
	_, err := m.s.UpdateStream(t.Context(), id, func(s *Stream) error { s.Name, s.RemoteID, s.BucketID = name, remote, 1; return nil })
	_, there := m.streams[id]
	_, known := m.remotes[remote]
	expect(t, err, there && known && m.free(name, id), "update stream")
	if err == nil {
		m.streams[id] = modelStream{name, m.streams[id].bucket, remote}
	}
}

func (m *model) deleteStream(t *rapid.T) {
	id := pick(t, m.streams)
	_, err := m.s.RetireStream(t.Context(), id)
	_, there := m.streams[id]
	expect(t, err, there, "retire stream")
	if err == nil {
		if err := m.s.DeleteStream(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		delete(m.streams, id)
	}
}

// check compares everything.
func (m *model) check(t *rapid.T) {
	buckets, err := m.s.Buckets(t.Context())
	if err != nil || len(buckets) != len(m.buckets) {
		t.Fatalf("%d buckets, %v; want %d", len(buckets), err, len(m.buckets))
	}
	for _, b := range buckets {
		if m.buckets[b.ID] != b.Name {
			t.Fatalf("bucket %+v, want %q", b, m.buckets[b.ID])
		}
	}
	remotes, err := m.s.Remotes(t.Context(), RemoteFilter{OrgID: m.org})
	if err != nil || len(remotes) != len(m.remotes) {
		t.Fatalf("%d remotes, %v; want %d", len(remotes), err, len(m.remotes))
	}
	for _, r := range remotes {
		if m.remotes[r.ID] != [2]string{r.Name, r.Secret} {
			t.Fatalf("remote %+v, want %q", r, m.remotes[r.ID])
		}
	}
	streams, err := m.s.Streams(t.Context(), StreamFilter{})
	if err != nil || len(streams) != len(m.streams) {
		t.Fatalf("%d streams, %v; want %d", len(streams), err, len(m.streams))
	}
	for _, s := range streams {
		if m.streams[s.ID] != (modelStream{s.Name, s.BucketID, s.RemoteID}) {
			t.Fatalf("stream %+v, want %+v", s, m.streams[s.ID])
		}
	}
}
