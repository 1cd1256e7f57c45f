package metadata

import (
	"context"
	"time"
)

// An Org owns buckets, remotes, streams and tokens.
type Org struct {
	ID                   ID
	Name, Description    string
	CreatedAt, UpdatedAt time.Time
}

var orgs = table[Org]{KindOrg, "orgs", "id, name, description, created, updated", func(_ *Store, row func(...any) error) (o Org, err error) {
	err = row(&o.ID, &o.Name, &o.Description, (*instant)(&o.CreatedAt), (*instant)(&o.UpdatedAt))
	return o, err
}}

// CreateOrg stores a new organisation, and returns it with its ID.
func (s *Store) CreateOrg(ctx context.Context, o Org) (Org, error) {
	err := s.do(ctx, func(t tx) (err error) {
		o, err = t.createOrg(o)
		return err
	})
	return o, err
}

func (t tx) createOrg(o Org) (Org, error) {
	if err := checkName(o.Name); err != nil {
		return o, err
	}
	o.ID, o.CreatedAt = t.s.ids.next(), t.s.now().UTC()
	o.UpdatedAt = o.CreatedAt
	_, err := t.exec(KindOrg, o.Name, "INSERT INTO orgs (id, name, description, created, updated) VALUES (?, ?, ?, ?, ?)",
		int64(o.ID), o.Name, o.Description, o.CreatedAt.UnixNano(), o.UpdatedAt.UnixNano())
	return o, err
}

// Org returns an organisation.
func (s *Store) Org(ctx context.Context, id ID) (o Org, err error) {
	err = s.do(ctx, func(t tx) error {
		o, err = orgs.one(t, id.String(), "id = ?", int64(id))
		return err
	})
	return o, err
}

// Orgs returns all organisations, the oldest first.
func (s *Store) Orgs(ctx context.Context) ([]Org, error) { return orgs.all(ctx, s, "true") }

// UpdateOrg changes an organisation.
func (s *Store) UpdateOrg(ctx context.Context, id ID, change func(*Org) error) (o Org, err error) {
	err = s.do(ctx, func(t tx) error {
		if o, err = orgs.one(t, id.String(), "id = ?", int64(id)); err != nil {
			return err
		}
		if err := change(&o); err != nil {
			return err
		}
		if err := checkName(o.Name); err != nil {
			return err
		}
		o.UpdatedAt = s.now().UTC()
		_, err := t.exec(KindOrg, o.Name, "UPDATE orgs SET name = ?, description = ?, updated = ? WHERE id = ?",
			o.Name, o.Description, o.UpdatedAt.UnixNano(), int64(id))
		return err
	})
	return o, err
}

// DeleteOrg deletes an organisation that owns nothing.
func (s *Store) DeleteOrg(ctx context.Context, id ID) error {
	return s.do(ctx, func(t tx) error {
		o, err := orgs.one(t, id.String(), "id = ?", int64(id))
		if err != nil {
			return err
		}
		by, err := t.list(`SELECT 'bucket ' || name FROM buckets WHERE org_id = ?1
UNION ALL SELECT 'remote ' || name FROM remotes WHERE org_id = ?1
UNION ALL SELECT 'replication ' || name FROM streams WHERE org_id = ?1
UNION ALL SELECT 'authorization ' || description FROM tokens WHERE org_id = ?1`, int64(id))
		if err != nil {
			return err
		}
		if len(by) > 0 {
			return &InUseError{Kind: KindOrg, Name: o.Name, By: by}
		}
		_, err = t.exec(KindOrg, o.Name, "DELETE FROM orgs WHERE id = ?", int64(id))
		return err
	})
}
