package apiclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/pkg/errors"
)

// A Kind is a kind of thing with a name.
type Kind[T any] struct {
	// Word is what people call it, Plural its name in paths and lists.
	Word, Plural string
	named        func(*T) (id, name string)
}

// The kinds. Tokens go by their descriptions.
var (
	Buckets = Kind[Bucket]{"bucket", "buckets", func(b *Bucket) (string, string) { return b.ID, b.Name }}
	Remotes = Kind[Remote]{"remote", "remotes", func(r *Remote) (string, string) { return r.ID, r.Name }}
	Streams = Kind[Stream]{"stream", "replications", func(s *Stream) (string, string) { return s.ID, s.Name }}
	Tokens  = Kind[Token]{"token", "authorizations", func(t *Token) (string, string) { return t.ID, t.Description }}
)

// NameOf returns what people call it.
func (k Kind[T]) NameOf(v *T) string {
	id, name := k.named(v)
	if name == "" {
		return id
	}
	return name
}

// IDOf returns its id.
func (k Kind[T]) IDOf(v *T) string {
	id, _ := k.named(v)
	return id
}

func (k Kind[T]) path(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/api/v2/" + k.Plural + strings.Join(append([]string{""}, parts...), "/")
}

// Org returns the organisation of that id or name; with an empty one the only one that there is.
func (c *Client) Org(ctx context.Context, ref string) (Org, error) {
	var list struct {
		Orgs []Org `json:"orgs"`
	}
	if err := c.do(ctx, http.MethodGet, "/api/v2/orgs", nil, nil, &list); err != nil {
		return Org{}, err
	}
	var names []string
	for _, o := range list.Orgs {
		if ref != "" && (o.ID == ref || o.Name == ref) || ref == "" && len(list.Orgs) == 1 {
			return o, nil
		}
		names = append(names, o.Name)
	}
	switch {
	case len(names) == 0:
		return Org{}, errors.New("the token has to do with no organization; give another one")
	case ref == "":
		return Org{}, errors.Errorf("there are several organizations (%s); name one with --org", strings.Join(names, ", "))
	}
	return Org{}, errors.Errorf("there is no organization %q; there is %s", ref, strings.Join(names, ", "))
}

// List returns all things of a kind in an organisation, the oldest first.
func (k Kind[T]) List(ctx context.Context, c *Client, orgID string) ([]Document[T], error) {
	lists := map[string][]Document[T]{}
	var answer looseLists[T] = lists
	if err := c.do(ctx, http.MethodGet, k.path(), url.Values{"orgID": {orgID}}, nil, &answer); err != nil {
		return nil, err
	}
	found := answer[k.Plural]
	if found == nil {
		found = []Document[T]{}
	}
	return found, nil
}

// Find returns the thing of that id or name; an id goes first. Where several bear the name, an id is needed.
func (k Kind[T]) Find(ctx context.Context, c *Client, orgID, ref string) (found Document[T], err error) {
	all, err := k.List(ctx, c, orgID)
	if err != nil {
		return found, err
	}
	var named []Document[T]
	for _, d := range all {
		id, name := k.named(&d.Fields)
		if id == ref {
			return d, nil
		}
		if name == ref {
			named = append(named, d)
		}
	}
	switch len(named) {
	case 1:
		return named[0], nil
	case 0:
		return found, &NotFoundError{Word: k.Word, Ref: ref}
	}
	return found, errors.Errorf("%d %ss are called %q; name one by its id, which 'tailrace %s list' shows", len(named), k.Word, ref, k.Word)
}

// A NotFoundError says that there is nothing of that id or name.
type NotFoundError struct{ Word, Ref string }

// Error says what to do.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no %s %q; 'tailrace %s list' shows what there is", e.Word, e.Ref, e.Word)
}

// Get returns the thing of that id.
func (k Kind[T]) Get(ctx context.Context, c *Client, id string) (d Document[T], err error) {
	return d, c.do(ctx, http.MethodGet, k.path(id), nil, nil, &d)
}

// Create makes one.
func (k Kind[T]) Create(ctx context.Context, c *Client, body Body) (d Document[T], err error) {
	return d, c.do(ctx, http.MethodPost, k.path(), nil, body, &d)
}

// Update changes one.
func (k Kind[T]) Update(ctx context.Context, c *Client, id string, body Body) (d Document[T], err error) {
	return d, c.do(ctx, http.MethodPatch, k.path(id), nil, body, &d)
}

// Delete deletes one.
func (k Kind[T]) Delete(ctx context.Context, c *Client, id string) error {
	return c.do(ctx, http.MethodDelete, k.path(id), nil, nil, nil)
}
