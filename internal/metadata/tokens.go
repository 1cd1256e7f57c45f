package metadata

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/pkg/errors"
)

// A Token lets its holder do things. What is stored of it is its hash.
type Token struct {
	ID, OrgID   ID
	Description string
	// Sum is the SHA-256 of the token.
	Sum [sha256.Size]byte
	// Active says whether it is accepted.
	Active bool
	// Permissions are what it may do.
	Permissions          []Permission
	CreatedAt, UpdatedAt time.Time
}

// A Permission allows one action on resources of one type.
type Permission struct {
	// Action is read or write.
	Action string `json:"action"`
	// Type is the type of the resources: orgs, buckets, remotes, replications or authorizations.
	Type string `json:"type"`
	// ID limits it to one resource, OrgID to those of one organisation; zero is no limit.
	ID    ID `json:"id,omitempty"`
	OrgID ID `json:"orgID,omitempty"`
}

var tokens = table[Token]{
	KindToken, "tokens", "id, org_id, description, sum, active, permissions, created, updated",
	func(_ *Store, row func(...any) error) (k Token, err error) {
		var sum []byte
		var permissions string
		err = row(&k.ID, &k.OrgID, &k.Description, &sum, &k.Active, &permissions, (*instant)(&k.CreatedAt), (*instant)(&k.UpdatedAt))
		if err != nil {
			return k, err
		}
		copy(k.Sum[:], sum)
		return k, errors.Wrap(json.Unmarshal([]byte(permissions), &k.Permissions), "permissions")
	},
}

// CreateToken makes a token with 256 random bits and stores its hash. It returns the token itself too,
// which is not to be had again.
func (s *Store) CreateToken(ctx context.Context, k Token) (stored Token, token string, err error) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // it never fails
	token = base64.RawURLEncoding.EncodeToString(raw[:])
	permissions, err := json.Marshal(k.Permissions)
	if err != nil {
		return k, "", errors.Wrap(err, "metadata: permissions")
	}
	k.Sum = sha256.Sum256([]byte(token))
	err = s.do(ctx, func(t tx) error {
		if _, err := orgs.one(t, k.OrgID.String(), "id = ?", int64(k.OrgID)); err != nil {
			return err
		}
		k.ID, k.CreatedAt = s.ids.next(), s.now().UTC()
		k.UpdatedAt = k.CreatedAt
		_, err := t.exec(KindToken, k.Description,
			"INSERT INTO tokens (id, org_id, description, sum, active, permissions, created, updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			int64(k.ID), int64(k.OrgID), k.Description, k.Sum[:], k.Active, string(permissions), k.CreatedAt.UnixNano(), k.UpdatedAt.UnixNano())
		return err
	})
	if err != nil {
		return k, "", err
	}
	return k, token, nil
}

// Token returns a token's description.
func (s *Store) Token(ctx context.Context, id ID) (k Token, err error) {
	err = s.do(ctx, func(t tx) error {
		k, err = tokens.one(t, id.String(), "id = ?", int64(id))
		return err
	})
	return k, err
}

// Tokens returns all tokens, the oldest first.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) { return tokens.all(ctx, s, "true") }

// UpdateToken changes a token's description, and whether it is accepted.
func (s *Store) UpdateToken(ctx context.Context, id ID, change func(*Token) error) (k Token, err error) {
	err = s.do(ctx, func(t tx) error {
		if k, err = tokens.one(t, id.String(), "id = ?", int64(id)); err != nil {
			return err
		}
		if err := change(&k); err != nil {
			return err
		}
		k.UpdatedAt = s.now().UTC()
		_, err := t.exec(KindToken, k.Description, "UPDATE tokens SET description = ?, active = ?, updated = ? WHERE id = ?",
			k.Description, k.Active, k.UpdatedAt.UnixNano(), int64(id))
		return err
	})
	return k, err
}

// DeleteToken deletes a token.
func (s *Store) DeleteToken(ctx context.Context, id ID) error {
	return s.do(ctx, func(t tx) error {
		n, err := t.exec(KindToken, id.String(), "DELETE FROM tokens WHERE id = ?", int64(id))
		if err == nil && n == 0 {
			return &NotFoundError{Kind: KindToken, Ref: id.String()}
		}
		return err
	})
}
