package api

import (
	"net/http"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	addresses "github.com/tailrace-cdc/tailrace/internal/remote"
	"github.com/tailrace-cdc/tailrace/internal/server"
)

type remote struct {
	ID               metadata.ID `json:"id"`
	OrgID            metadata.ID `json:"orgID"`
	Name             string      `json:"name"`
	Description      *string     `json:"description,omitempty"`
	RemoteURL        string      `json:"remoteURL"`
	RemoteOrgID      *string     `json:"remoteOrgID"`
	AllowInsecureTLS bool        `json:"allowInsecureTLS"`
	SecretMissing    bool        `json:"secretMissing"`
}

func showRemote(r metadata.Remote) remote {
	return remote{r.ID, r.OrgID, r.Name, r.Description, addresses.Shown(r.URL), r.RemoteOrgID, r.AllowInsecureTLS, r.SecretMissing}
}

type remoteBody struct {
	OrgID            optional[metadata.ID] `json:"orgID"`
	Name             optional[string]      `json:"name"`
	Description      optional[string]      `json:"description"`
	RemoteURL        optional[string]      `json:"remoteURL"`
	RemoteAPIToken   optional[string]      `json:"remoteAPIToken"`
	RemoteOrgID      optional[string]      `json:"remoteOrgID"`
	AllowInsecureTLS optional[bool]        `json:"allowInsecureTLS"`
}

func (b remoteBody) change(r *metadata.Remote) error {
	b.Name.giveValue(&r.Name)
	b.Description.give(&r.Description)
	b.RemoteAPIToken.giveValue(&r.Secret)
	r.SecretGiven = b.RemoteAPIToken.Set
	b.RemoteOrgID.give(&r.RemoteOrgID)
	b.AllowInsecureTLS.giveValue(&r.AllowInsecureTLS)
	b.RemoteURL.giveValue(&r.URL)
	return nil
}

func (a *API) listRemotes(c *call) error {
	orgID, err := c.orgID()
	if err != nil {
		return err
	}
	query := c.URL.Query()
	url := query.Get("remoteURL")
	if shown := addresses.Shown(url); shown != "" {
		url = shown // as it is stored
	}
	remotes, err := a.service.Remotes(c.Context(), metadata.RemoteFilter{OrgID: orgID, Name: query.Get("name"), URL: url})
	if err != nil {
		return err
	}
	found := []remote{}
	for _, r := range remotes {
		if c.who.May(server.Read, resource("remotes", r.ID, r.OrgID)) {
			found = append(found, showRemote(r))
		}
	}
	return c.answer(http.StatusOK, struct {
		Remotes []remote `json:"remotes"`
	}{found})
}

func (a *API) createRemote(c *call) error {
	var body remoteBody
	if err := c.decode(&body); err != nil {
		return err
	}
	var r metadata.Remote
	body.OrgID.giveValue(&r.OrgID)
	if r.OrgID == 0 {
		return refuse(http.StatusBadRequest, "invalid or missing org ID: give orgID")
	}
	if err := c.may(server.Write, resource("remotes", 0, r.OrgID)); err != nil {
		return err
	}
	_ = body.change(&r) // it never fails
	r, err := a.service.CreateRemote(c.Context(), r)
	if err != nil {
		return given(err)
	}
	return c.answer(http.StatusCreated, showRemote(r))
}

// remote returns the remote of the path, if that may be done with it.
func (a *API) remote(c *call, action string) (metadata.Remote, error) {
	id, err := c.pathID(metadata.KindRemote)
	if err != nil {
		return metadata.Remote{}, err
	}
	r, err := a.service.Remote(c.Context(), id)
	if err != nil {
		return r, err
	}
	return r, c.may(action, resource("remotes", r.ID, r.OrgID))
}

func (a *API) getRemote(c *call) error {
	r, err := a.remote(c, server.Read)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, showRemote(r))
}

func (a *API) updateRemote(c *call) error {
	r, err := a.remote(c, server.Write)
	if err != nil {
		return err
	}
	var body remoteBody
	if err := c.decode(&body); err != nil {
		return err
	}
	if r, err = a.service.UpdateRemote(c.Context(), r.ID, body.change); err != nil {
		return err
	}
	return c.answer(http.StatusOK, showRemote(r))
}

func (a *API) deleteRemote(c *call) error {
	r, err := a.remote(c, server.Write)
	if err != nil {
		return err
	}
	if err := a.service.DeleteRemote(c.Context(), r.ID); err != nil {
		return err
	}
	return c.done()
}
