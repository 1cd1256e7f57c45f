package replication

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
)

// TestStoredSecretsAreTakenOutOfAddresses has addresses in the metadata in which nobody had recognised the
// password.
func TestStoredSecretsAreTakenOutOfAddresses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	store := func(url string) metadata.ID {
		r, err := s.store.CreateRemote(t.Context(), metadata.Remote{OrgID: s.org.ID, Name: "r" + strconv.Itoa(len(url)), URL: url})
		must(t, err)
		return r.ID
	}
	mended, malformed := store("postgres://u@h/db?password=hunter2"), store("postgres://u@h/db?password=hun;ter2")
	s.restart()
	r, err := s.service.Remote(t.Context(), mended)
	must(t, err)
	if r.URL != "postgres://u@h/db" || r.Secret != "hunter2" {
		t.Errorf("stored is %s with the secret %q", r.URL, r.Secret)
	}
	if !s.log.says("remoteURL", malformed.String()) || strings.Contains(s.log.String(), "hun;ter2") {
		t.Errorf("the log about the other: %s", s.log.String())
	}
}

// TestSecretStaysWithItsAddress has a secret that nobody can read be sent to whomever a PATCH says.
func TestSecretStaysWithItsAddress(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for before, changes := range map[string]map[string]bool{
		"https://mine.example": {
			"http://mine.example": true, "https://evil.example": true, "https://mine.example:444": true, "postgres://u@mine.example/db": true,
			"https://other@mine.example/prefix": false, "https://MINE.example": false, "sqlite:x.db": true,
		},
		"postgres://u@mine.example/db?sslmode=verify-full": {
			"postgres://u@mine.example/db": true, "postgres://u@mine.example/db?sslmode=disable": true, "postgres://v@mine.example/other?sslmode=verify-full": false,
			"postgres://u@mine.example,evil.example/db?sslmode=verify-full": true, "postgres://u@mine.example/db?host=evil.example&sslmode=verify-full": true,
		},
	} {
		for url, refused := range changes {
			r, err := s.service.CreateRemote(t.Context(), metadata.Remote{OrgID: s.org.ID, Name: before + url, URL: before, Secret: "s3cret"})
			must(t, err)
			to := func(secret *string) error {
				_, err := s.service.UpdateRemote(t.Context(), r.ID, func(r *metadata.Remote) error {
					if r.URL = url; secret != nil {
						r.Secret, r.SecretGiven = *secret, true
					}
					return nil
				})
				return err
			}
			if invalid := new(metadata.InvalidError); errors.As(to(nil), &invalid) != refused || refused && invalid.Field != "remoteAPIToken" {
				t.Errorf("%s to %s: %+v, want refused %v", before, url, invalid, refused)
			}
			same := "s3cret"
			if err := to(&same); err != nil {
				t.Errorf("%s to %s with the secret: %v", before, url, err)
			}
		}
	}
	r, err := s.service.CreateRemote(t.Context(), metadata.Remote{OrgID: s.org.ID, Name: "tls", URL: "https://mine.example", Secret: "s3cret"})
	must(t, err)
	_, err = s.service.UpdateRemote(t.Context(), r.ID, func(r *metadata.Remote) error { r.AllowInsecureTLS = true; return nil })
	if invalid := new(metadata.InvalidError); !errors.As(err, &invalid) {
		t.Errorf("any certificate is accepted with the stored secret: %v", err)
	}
	if r, err = s.service.Remote(t.Context(), r.ID); err != nil || r.AllowInsecureTLS {
		t.Errorf("the refused change is stored: %+v, %v", r, err)
	}
	r, err = s.service.UpdateRemote(t.Context(), r.ID, func(r *metadata.Remote) error { r.URL = "https://me:other@evil.example"; return nil })
	if err != nil || r.Secret != "other" {
		t.Errorf("with a password in the address: %+v, %v", r, err)
	}
	if _, err := s.service.CreateRemote(t.Context(), metadata.Remote{OrgID: s.org.ID, Name: "none", URL: "https://mine.example"}); err != nil {
		t.Error(err)
	}
}

// TestMissingSecretCanBeSetToNone is after the key file was lost, of a remote that needs no secret any more.
func TestMissingSecretCanBeSetToNone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r, err := s.service.CreateRemote(t.Context(), metadata.Remote{OrgID: s.org.ID, Name: "r", URL: "sqlite:r.db", Secret: "s3cret"})
	must(t, err)
	s.stop()
	s.key = bytes.Repeat([]byte{2}, metadata.KeySize)
	s.start()
	st := s.stream("a", r)
	s.until(st.ID, "the secret is not missed", func(st Status) bool { return st.State == StateSecretMissing })
	_, err = s.service.UpdateRemote(t.Context(), r.ID, func(r *metadata.Remote) error { r.Secret, r.SecretGiven = "", true; return nil })
	must(t, err)
	s.point(1)
	s.settled(st.ID)
}

// TestUpdateOfARemoteIsAppliedOnceItIsStored has the client go away right after the change was stored.
func TestUpdateOfARemoteIsAppliedOnceItIsStored(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.file("a")
	st := s.stream("a", r)
	for range 20 { // the other one may come too late
		ctx, cancel := context.WithCancel(t.Context())
		waiting, done := make(chan struct{}), make(chan error, 1)
		_, err := s.service.UpdateRemote(ctx, r.ID, func(r *metadata.Remote) error {
			go func() { // is next at the store
				close(waiting)
				_, err := s.store.UpdateRemote(context.WithoutCancel(ctx), r.ID, func(*metadata.Remote) error { cancel(); return nil })
				done <- err
			}()
			<-waiting
			r.Secret = "refuse"
			return nil
		})
		cancel()
		must(t, <-done)
		stored, lost := s.store.Remote(t.Context(), r.ID)
		must(t, lost)
		if got := s.service.Status(t.Context(), st.ID); stored.Secret == "refuse" && got.State != StateTargetBroken {
			t.Fatalf("%v; stored is the new secret, and the stream is %s with the old one", err, got.State)
		}
		_, err = s.service.UpdateRemote(t.Context(), r.ID, func(r *metadata.Remote) error { r.Secret = "good"; return nil })
		must(t, err)
	}
}
