package api

import (
	"net/http"
	"slices"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/server"
)

type permission struct {
	Action   string           `json:"action"`
	Resource permissionTarget `json:"resource"`
}

type permissionTarget struct {
	Type  string       `json:"type"`
	ID    *metadata.ID `json:"id,omitempty"`
	OrgID *metadata.ID `json:"orgID,omitempty"`
}

type authorization struct {
	ID          metadata.ID  `json:"id"`
	OrgID       metadata.ID  `json:"orgID"`
	Org         string       `json:"org"`
	Description string       `json:"description"`
	Status      string       `json:"status"`
	Token       string       `json:"token,omitempty"` // when it is created, and never again
	Permissions []permission `json:"permissions"`
	CreatedAt   time.Time    `json:"createdAt"`
	UpdatedAt   time.Time    `json:"updatedAt"`
	Links       links        `json:"links"`
}

func (a *API) showToken(t metadata.Token, token string) authorization {
	out := authorization{
		ID: t.ID, OrgID: t.OrgID, Description: t.Description, Status: "inactive", Token: token, Permissions: []permission{},
		CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, Links: links{"self": "/api/v2/authorizations/" + t.ID.String()},
	}
	if t.Active {
		out.Status = "active"
	}
	if o, err := a.service.FindOrg(t.OrgID.String()); err == nil {
		out.Org = o.Name
	}
	for _, p := range t.Permissions {
		shown := permission{Action: p.Action, Resource: permissionTarget{Type: p.Type}}
		if p.ID != 0 {
			shown.Resource.ID = &p.ID
		}
		if p.OrgID != 0 {
			shown.Resource.OrgID = &p.OrgID
		}
		out.Permissions = append(out.Permissions, shown)
	}
	return out
}

type tokenBody struct {
	OrgID       optional[metadata.ID] `json:"orgID"`
	Description optional[string]      `json:"description"`
	Status      optional[string]      `json:"status"`
	Permissions []permission          `json:"permissions"`
	// Scope is short for permissions: write (to the bucket BucketID), read, or manage.
	Scope    string                `json:"scope"`
	BucketID optional[metadata.ID] `json:"bucketID"`
}

func (b tokenBody) change(t *metadata.Token) error {
	b.Description.giveValue(&t.Description)
	if b.Status.Value != nil {
		if !slices.Contains([]string{"active", "inactive"}, *b.Status.Value) {
			return refuse(http.StatusBadRequest, "status: give active or inactive")
		}
		t.Active = *b.Status.Value == "active"
	}
	return nil
}

// resourceTypes are what permissions can be about here.
var resourceTypes = []string{"authorizations", "buckets", "orgs", "remotes", "replications"}

// permissions returns what the body asks for. Resources of InfluxDB that do not exist here are kept: they
// allow nothing.
func (b tokenBody) permissions(org metadata.ID) (all []metadata.Permission, err error) {
	for _, p := range b.Permissions {
		if p.Action != server.Read && p.Action != server.Write || p.Resource.Type == "" {
			return nil, refuse(http.StatusBadRequest, "permissions: each needs an action, read or write, and a resource with a type")
		}
		stored := metadata.Permission{Action: p.Action, Type: p.Resource.Type}
		if p.Resource.ID != nil {
			stored.ID = *p.Resource.ID
		}
		if p.Resource.OrgID != nil {
			stored.OrgID = *p.Resource.OrgID
		}
		all = append(all, stored)
	}
	switch b.Scope {
	case "":
	case "write":
		if b.BucketID.Value == nil {
			return nil, refuse(http.StatusBadRequest, "bucketID: the scope write needs the bucket")
		}
		all = append(all, metadata.Permission{Action: server.Write, Type: "buckets", ID: *b.BucketID.Value, OrgID: org})
	case "read", "manage":
		for _, kind := range resourceTypes {
			all = append(all, metadata.Permission{Action: server.Read, Type: kind, OrgID: org})
			if b.Scope == "manage" {
				all = append(all, metadata.Permission{Action: server.Write, Type: kind, OrgID: org})
			}
		}
	default:
		return nil, refuse(http.StatusBadRequest, "scope: give write, read or manage")
	}
	if len(all) == 0 {
		return nil, refuse(http.StatusBadRequest, "permissions: give at least one, or a scope")
	}
	return all, nil
}

// covers reports whether somebody may do all that a permission allows.
func covers(who server.Principal, p metadata.Permission) bool {
	if who.Manage || !slices.Contains(resourceTypes, p.Type) {
		return true
	}
	return slices.ContainsFunc(who.Grants, func(g server.Grant) bool {
		return g.Action == p.Action && g.Type == p.Type && (g.ID == "" || p.ID != 0 && g.ID == p.ID.String()) &&
			(g.OrgID == "" || p.OrgID != 0 && g.OrgID == p.OrgID.String())
	})
}

func (a *API) listTokens(c *call) error {
	orgID, err := c.queryID("orgID")
	if err != nil {
		return err
	}
	if name := c.URL.Query().Get("org"); name != "" {
		o, err := a.service.FindOrg(name)
		if err != nil {
			return err
		}
		orgID = o.ID
	}
	tokens, err := a.service.Tokens(c.Context())
	if err != nil {
		return err
	}
	found := []authorization{}
	for _, t := range tokens {
		if c.who.May(server.Read, resource("authorizations", t.ID, t.OrgID)) && (orgID == 0 || t.OrgID == orgID) {
			found = append(found, a.showToken(t, ""))
		}
	}
	return c.answer(http.StatusOK, struct {
		Links          links           `json:"links"`
		Authorizations []authorization `json:"authorizations"`
	}{links{"self": "/api/v2/authorizations"}, found})
}

func (a *API) createToken(c *call) error {
	var body tokenBody
	if err := c.decode(&body); err != nil {
		return err
	}
	t := metadata.Token{Active: true}
	body.OrgID.giveValue(&t.OrgID)
	if t.OrgID == 0 {
		return refuse(http.StatusBadRequest, "invalid or missing org ID: give orgID")
	}
	err := body.change(&t)
	if err != nil {
		return err
	}
	if t.Permissions, err = body.permissions(t.OrgID); err != nil {
		return err
	}
	if err := c.may(server.Write, resource("authorizations", 0, t.OrgID)); err != nil {
		return err
	}
	for _, p := range t.Permissions {
		if !covers(c.who, p) {
			return refuse(http.StatusForbidden, "the token may not give away what it lacks: %s:%s", p.Action, p.Type)
		}
	}
	t, token, err := a.service.CreateToken(c.Context(), t)
	if err != nil {
		return given(err)
	}
	return c.answer(http.StatusCreated, a.showToken(t, token))
}

// token returns the token of the path, if that may be done with it.
func (a *API) token(c *call, action string) (metadata.Token, error) {
	id, err := c.pathID(metadata.KindToken)
	if err != nil {
		return metadata.Token{}, err
	}
	t, err := a.service.Token(c.Context(), id)
	if err != nil {
		return t, err
	}
	return t, c.may(action, resource("authorizations", t.ID, t.OrgID))
}

func (a *API) getToken(c *call) error {
	t, err := a.token(c, server.Read)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, a.showToken(t, ""))
}

func (a *API) updateToken(c *call) error {
	t, err := a.token(c, server.Write)
	if err != nil {
		return err
	}
	var body tokenBody
	if err := c.decode(&body); err != nil {
		return err
	}
	if t, err = a.service.UpdateToken(c.Context(), t.ID, body.change); err != nil {
		return err
	}
	return c.answer(http.StatusOK, a.showToken(t, ""))
}

func (a *API) deleteToken(c *call) error {
	t, err := a.token(c, server.Write)
	if err != nil {
		return err
	}
	if err := a.service.DeleteToken(c.Context(), t.ID); err != nil {
		return err
	}
	return c.done()
}
