package metadata

import (
	"context"
	"time"
)

// A Remote says how to reach a target.
type Remote struct {
	ID, OrgID   ID
	Name        string
	Description *string
	// URL is the address, without a password in it.
	URL string
	// RemoteOrgID is the organisation at the remote, by id or name; nil if it needs none.
	RemoteOrgID *string
	// AllowInsecureTLS takes any certificate.
	AllowInsecureTLS bool
	// Unrestricted says that the operator of this machine gave the address, and that the limits for
	// addresses that come over the API do not count.
	Unrestricted bool
	// Secret is the token or password. It is stored encrypted.
	Secret string
	// SecretMissing says that there is a secret that cannot be read, because the key is another one.
	SecretMissing bool
	// SecretGiven says, in a change, that Secret was given, even if it is the one that was there.
	SecretGiven          bool
	CreatedAt, UpdatedAt time.Time
}

var remotes = table[Remote]{
	KindRemote, "remotes",
	"id, org_id, name, description, url, remote_org_id, allow_insecure_tls, unrestricted, secret, created, updated",
	func(s *Store, row func(...any) error) (r Remote, err error) {
		var sealed []byte
		err = row(&r.ID, &r.OrgID, &r.Name, &r.Description, &r.URL, &r.RemoteOrgID, &r.AllowInsecureTLS, &r.Unrestricted, &sealed,
			(*instant)(&r.CreatedAt), (*instant)(&r.UpdatedAt))
		if err == nil {
			var ok bool
			r.Secret, ok = s.vault.open(r.ID, sealed)
			r.SecretMissing = !ok
		}
		return r, err
	},
}

// CreateRemote stores a new remote, and returns it with its ID.
func (s *Store) CreateRemote(ctx context.Context, r Remote) (Remote, error) {
	err := s.do(ctx, func(t tx) (err error) {
		r, err = t.createRemote(r)
		return err
	})
	return r, err
}

func (t tx) createRemote(r Remote) (Remote, error) {
	if err := r.check(); err != nil {
		return r, err
	}
	if _, err := orgs.one(t, r.OrgID.String(), "id = ?", int64(r.OrgID)); err != nil {
		return r, err
	}
	r.ID, r.CreatedAt, r.SecretMissing, r.SecretGiven = t.s.ids.next(), t.s.now().UTC(), false, false
	r.UpdatedAt = r.CreatedAt
	_, err := t.exec(KindRemote, r.Name, `INSERT INTO remotes
(id, org_id, name, description, url, remote_org_id, allow_insecure_tls, unrestricted, secret, created, updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		int64(r.ID), int64(r.OrgID), r.Name, r.Description, r.URL, r.RemoteOrgID, r.AllowInsecureTLS, r.Unrestricted,
		t.s.vault.seal(r.ID, r.Secret), r.CreatedAt.UnixNano(), r.UpdatedAt.UnixNano())
	return r, err
}

func (r *Remote) check() error {
	if err := checkName(r.Name); err != nil {
		return err
	}
	if r.URL == "" {
		return &InvalidError{Field: "remoteURL", Reason: "give an address"}
	}
	return nil
}

// Remote returns a remote.
func (s *Store) Remote(ctx context.Context, id ID) (r Remote, err error) {
	err = s.do(ctx, func(t tx) error {
		r, err = remotes.one(t, id.String(), "id = ?", int64(id))
		return err
	})
	return r, err
}

// A RemoteFilter chooses remotes; what is zero chooses all.
type RemoteFilter struct {
	OrgID     ID
	Name, URL string
}

// Remotes returns the remotes that a filter chooses, the oldest first.
func (s *Store) Remotes(ctx context.Context, f RemoteFilter) ([]Remote, error) {
	var c condition
	c.id("org_id", f.OrgID)
	c.text("name", f.Name)
	c.text("url", f.URL)
	return remotes.all(ctx, s, c.where(), c.args...)
}

// UpdateRemote changes a remote. A secret that is missing stays as it is stored, unless change sets one.
func (s *Store) UpdateRemote(ctx context.Context, id ID, change func(*Remote) error) (r Remote, err error) {
	err = s.do(ctx, func(t tx) error {
		if r, err = remotes.one(t, id.String(), "id = ?", int64(id)); err != nil {
			return err
		}
		before := r.Secret
		if err := change(&r); err != nil {
			return err
		}
		if err := r.check(); err != nil {
			return err
		}
		r.UpdatedAt = s.now().UTC()
		_, err := t.exec(KindRemote, r.Name, `UPDATE remotes
SET name = ?, description = ?, url = ?, remote_org_id = ?, allow_insecure_tls = ?, unrestricted = ?, updated = ? WHERE id = ?`,
			r.Name, r.Description, r.URL, r.RemoteOrgID, r.AllowInsecureTLS, r.Unrestricted, r.UpdatedAt.UnixNano(), int64(id))
		given := r.SecretGiven || r.Secret != before
		if r.SecretGiven = false; err != nil || !given {
			return err
		}
		r.SecretMissing = false
		_, err = t.exec(KindRemote, r.Name, "UPDATE remotes SET secret = ? WHERE id = ?", s.vault.seal(id, r.Secret), int64(id))
		return err
	})
	return r, err
}

// DeleteRemote deletes a remote that no stream uses.
func (s *Store) DeleteRemote(ctx context.Context, id ID) error {
	return s.do(ctx, func(t tx) error {
		r, err := remotes.one(t, id.String(), "id = ?", int64(id))
		if err != nil {
			return err
		}
		by, err := t.list("SELECT 'replication ' || name FROM streams WHERE remote_id = ? ORDER BY id", int64(id))
		if err != nil {
			return err
		}
		if len(by) > 0 {
			return &InUseError{Kind: KindRemote, Name: r.Name, By: by}
		}
		_, err = t.exec(KindRemote, r.Name, "DELETE FROM remotes WHERE id = ?", int64(id))
		return err
	})
}
