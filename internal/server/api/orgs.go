package api

import (
	"net/http"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/server"
)

type links map[string]string

type org struct {
	ID          metadata.ID `json:"id"`
	Name        string      `json:"name"`
	Description string      `json:"description"`
	CreatedAt   time.Time   `json:"createdAt"`
	UpdatedAt   time.Time   `json:"updatedAt"`
	Links       links       `json:"links"`
}

func showOrg(o metadata.Org) org {
	self := "/api/v2/orgs/" + o.ID.String()
	return org{o.ID, o.Name, o.Description, o.CreatedAt, o.UpdatedAt, links{"self": self, "buckets": "/api/v2/buckets?orgID=" + o.ID.String()}}
}

type orgBody struct {
	Name        optional[string] `json:"name"`
	Description optional[string] `json:"description"`
}

func (b orgBody) change(o *metadata.Org) error {
	b.Name.giveValue(&o.Name)
	b.Description.giveValue(&o.Description)
	return nil
}

// sees reports whether a token has to do with an organisation: it may do something there.
func sees(who server.Principal, o metadata.Org) bool {
	if who.Manage {
		return true
	}
	for _, g := range who.Grants {
		if g.OrgID == "" || g.OrgID == o.ID.String() {
			return true
		}
	}
	return false
}

func (a *API) listOrgs(c *call) error {
	id, err := c.queryID("orgID")
	if err != nil {
		return err
	}
	offset, limit, err := c.page()
	if err != nil {
		return err
	}
	name := c.URL.Query().Get("org")
	var found []org
	for _, o := range a.service.Orgs() {
		if sees(c.who, o) && (id == 0 || o.ID == id) && (name == "" || o.Name == name) {
			found = append(found, showOrg(o))
		}
	}
	return c.answer(http.StatusOK, struct {
		Links links `json:"links"`
		Orgs  []org `json:"orgs"`
	}{links{"self": "/api/v2/orgs"}, cut(found, offset, limit)})
}

func (a *API) createOrg(c *call) error {
	var body orgBody
	if err := c.decode(&body); err != nil {
		return err
	}
	if err := c.may(server.Write, resource("orgs", 0, 0)); err != nil {
		return err
	}
	var o metadata.Org
	_ = body.change(&o) // it never fails
	o, err := a.service.CreateOrg(c.Context(), o)
	if err != nil {
		return err
	}
	return c.answer(http.StatusCreated, showOrg(o))
}

// org returns the organisation of the path.
func (a *API) org(c *call) (metadata.Org, error) {
	id, err := c.pathID(metadata.KindOrg)
	if err != nil {
		return metadata.Org{}, err
	}
	for _, o := range a.service.Orgs() {
		if o.ID == id {
			return o, nil
		}
	}
	return metadata.Org{}, &metadata.NotFoundError{Kind: metadata.KindOrg, Ref: id.String()}
}

func (a *API) getOrg(c *call) error {
	o, err := a.org(c)
	if err != nil {
		return err
	}
	if !sees(c.who, o) {
		return c.may(server.Read, resource("orgs", o.ID, o.ID))
	}
	return c.answer(http.StatusOK, showOrg(o))
}

func (a *API) updateOrg(c *call) error {
	o, err := a.org(c)
	if err != nil {
		return err
	}
	if err := c.may(server.Write, resource("orgs", o.ID, o.ID)); err != nil {
		return err
	}
	var body orgBody
	if err := c.decode(&body); err != nil {
		return err
	}
	if o, err = a.service.UpdateOrg(c.Context(), o.ID, body.change); err != nil {
		return err
	}
	return c.answer(http.StatusOK, showOrg(o))
}

func (a *API) deleteOrg(c *call) error {
	o, err := a.org(c)
	if err != nil {
		return err
	}
	if err := c.may(server.Write, resource("orgs", o.ID, o.ID)); err != nil {
		return err
	}
	if err := a.service.DeleteOrg(c.Context(), o.ID); err != nil {
		return err
	}
	return c.done()
}
