package replication

import (
	"context"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/remote"
)

// Remote returns a remote.
func (s *Service) Remote(ctx context.Context, id metadata.ID) (metadata.Remote, error) {
	return s.store.Remote(ctx, id)
}

// Remotes returns the remotes that a filter chooses, the oldest first.
func (s *Service) Remotes(ctx context.Context, f metadata.RemoteFilter) ([]metadata.Remote, error) {
	return s.store.Remotes(ctx, f)
}

// CreateRemote stores a new remote. It need not be reachable.
func (s *Service) CreateRemote(ctx context.Context, r metadata.Remote) (metadata.Remote, error) {
	r.Unrestricted = false
	if err := s.address(&r); err != nil {
		return r, err
	}
	return s.store.CreateRemote(ctx, r)
}

// UpdateRemote changes a remote, and has its streams use it as it is now. What the operator has allowed is the
// address that was: another one has to be within the limits. The stored secret is only for where it was given
// for: another host, or fewer checks of who answers there, takes it being given again.
func (s *Service) UpdateRemote(ctx context.Context, id metadata.ID, change func(*metadata.Remote) error) (metadata.Remote, error) {
	r, err := s.store.UpdateRemote(ctx, id, func(r *metadata.Remote) error {
		before := *r
		if err := change(r); err != nil {
			return err
		}
		r.Unrestricted = before.Unrestricted && r.URL == before.URL
		if r.URL != before.URL {
			if err := s.address(r); err != nil {
				return err
			}
		}
		given := r.SecretGiven || r.Secret != before.Secret
		if (before.Secret != "" || before.SecretMissing) && !given && exposes(before, *r) {
			return &metadata.InvalidError{
				Field: "remoteAPIToken", Reason: "the address leads elsewhere, or its certificate is no longer looked at: give the token or password again",
			}
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	ctx = context.WithoutCancel(ctx) // it is stored
	streams, err := s.store.Streams(ctx, metadata.StreamFilter{RemoteID: id})
	if err != nil {
		return r, err
	}
	s.applyAll(ctx, streams)
	return r, nil
}

// exposes reports whether somebody might get the secret of a remote after a change who could not before.
func exposes(before, after metadata.Remote) bool {
	if after.AllowInsecureTLS && !before.AllowInsecureTLS {
		return true
	}
	old, _, err := remote.Parse(before.URL)
	if err != nil {
		return true
	}
	changed, _, err := remote.Parse(after.URL)
	return err != nil || !changed.SameServer(old)
}

// DeleteRemote deletes a remote that no stream uses.
func (s *Service) DeleteRemote(ctx context.Context, id metadata.ID) error {
	return s.store.DeleteRemote(ctx, id)
}

// mendAddresses takes out what is secret in addresses that were stored when it was not recognised.
func (s *Service) mendAddresses(ctx context.Context) error {
	remotes, err := s.store.Remotes(ctx, metadata.RemoteFilter{})
	if err != nil {
		return err
	}
	for _, r := range remotes {
		a, secret, err := remote.Parse(r.URL)
		if err != nil {
			s.log.Error("the stored address of a remote is malformed, and may hold a secret in clear; give the remote another remoteURL",
				"remote", r.ID.String(), "name", r.Name, "error", err.Error())
			continue
		}
		if a.Text == r.URL {
			continue
		}
		if _, err := s.store.UpdateRemote(ctx, r.ID, func(r *metadata.Remote) error {
			if r.URL = a.Text; secret != "" && r.Secret == "" && !r.SecretMissing {
				r.Secret = secret
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// address checks a remote's address, and moves a password out of it.
func (s *Service) address(r *metadata.Remote) error {
	a, secret, err := remote.Parse(r.URL)
	if err == nil {
		_, err = s.config.Limits.Limit(remote.Connection{Address: a})
	}
	if err != nil {
		return &metadata.InvalidError{Field: "remoteURL", Reason: err.Error()}
	}
	r.URL = a.Text
	if secret != "" {
		r.Secret, r.SecretGiven = secret, true
	}
	return nil
}
