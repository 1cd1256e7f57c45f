package replication

import (
	"errors"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
)

// TestStartDoesNotWaitForDeletions that a crash interrupted, of which one takes for ever: the others end, the
// server starts and stops, and NOTHING SILENT: what had not been sent is said.
func TestStartDoesNotWaitForDeletions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dead := s.dead()
	other, err := s.service.CreateBucket(t.Context(), metadata.Bucket{OrgID: s.org.ID, Name: "other"})
	must(t, err)
	stuck := s.stream("stuck", dead)
	for _, name := range []string{"a", "b", "c"} {
		_, err := s.service.CreateStream(t.Context(), metadata.Stream{OrgID: s.org.ID, Name: name, BucketID: other.ID, RemoteID: dead.ID})
		must(t, err)
	}
	s.point(1)
	_, err = s.store.RetireStream(t.Context(), stuck.ID)
	must(t, err)
	_, err = s.store.RetireBucket(t.Context(), other.ID)
	must(t, err)
	s.stop()
	s.open()
	unlock := s.service.lockStream(stuck.ID)
	must(t, s.service.Start(t.Context())) // does not come back before the deletion has ended, if it waits for it
	deleting := func() (n int) {
		all, err := s.store.Streams(t.Context(), metadata.StreamFilter{Deleting: true})
		must(t, err)
		return len(all)
	}
	s.eventually("the others are not deleted", func() bool { return deleting() == 1 })
	if err := s.write("m v=2i 2\n"); err == nil {
		t.Error("a write is acknowledged that only a stream has which is being deleted")
	}
	unlock()
	s.eventually("it is not deleted", func() bool { return deleting() == 0 && len(s.queueDirs()) == 0 })
	s.eventually("the bucket is left", func() bool {
		all, err := s.store.Buckets(t.Context())
		must(t, err)
		return len(all) == 1
	})
	if !s.log.says("stream deleted with data", stuck.ID.String()) {
		t.Errorf("nobody says that data is lost: %s", s.log.String())
	}
}

// TestUpdateOfARemoteDoesNotWaitForEver has one of its streams be busy with something else.
func TestUpdateOfARemoteDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.file("a")
	busy, free := s.stream("busy", r), s.stream("free", r)
	s.service.config.ApplyWithin = time.Millisecond
	unlock := s.service.lockStream(busy.ID)
	_, err := s.service.UpdateRemote(t.Context(), r.ID, func(r *metadata.Remote) error { r.Secret = "refuse"; return nil })
	must(t, err)
	broken := func(st Status) bool { return st.State == StateTargetBroken }
	s.until(free.ID, "the change is not applied", broken)
	if broken(s.service.Status(t.Context(), busy.ID)) {
		t.Error("the change is applied under another one")
	}
	unlock()
	s.until(busy.ID, "the change is not applied later", broken)
}

func (s *site) eventually(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s\n%s", what, s.log.String())
		}
	}
}

// TestDeleteBucketBesideDeleteReplication has a bucket deleted while one of its replications is, and again.
func TestDeleteBucketBesideDeleteReplication(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	st := s.stream("a", s.file("a"))
	s.stream("b", s.file("b"))
	unlock := s.service.lockStream(st.ID)
	ends := make(chan error, 3)
	go func() { ends <- s.service.DeleteStream(t.Context(), st.ID) }()
	s.eventually("the stream is not being deleted", func() bool {
		_, err := s.store.Stream(t.Context(), st.ID)
		return err != nil
	})
	for range 2 {
		go func() { ends <- s.service.DeleteBucket(t.Context(), s.bucket.ID) }()
		s.eventually("the bucket is not being deleted", func() bool { return len(s.service.Buckets()) == 0 })
	}
	unlock()
	for range 3 {
		err := <-ends
		if gone := new(metadata.NotFoundError); err != nil && !errors.As(err, &gone) { // the second may have come too late
			t.Error(err)
		}
	}
	left, err := s.store.Buckets(t.Context())
	must(t, err)
	if len(left) > 0 || len(s.queueDirs()) > 0 {
		t.Errorf("left are %+v, and the queues %v", left, s.queueDirs())
	}
}

// TestDeleteBucketGoesOn after a deletion that did not come to its end.
func TestDeleteBucketGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.stream("a", s.file("a"))
	_, err := s.store.RetireBucket(t.Context(), s.bucket.ID)
	must(t, err)
	must(t, s.service.reread(t.Context()))
	must(t, s.service.DeleteBucket(t.Context(), s.bucket.ID))
	if _, err := s.service.DeletableBucket(s.bucket.ID); err == nil || len(s.queueDirs()) > 0 {
		t.Errorf("the bucket is left, and the queues %v", s.queueDirs())
	}
}
