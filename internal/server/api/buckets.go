package api

import (
	"net/http"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/server"
)

type bucket struct {
	ID             metadata.ID `json:"id"`
	OrgID          metadata.ID `json:"orgID"`
	Type           string      `json:"type"`
	Name           string      `json:"name"`
	Description    string      `json:"description"`
	RetentionRules []struct{}  `json:"retentionRules"` // nothing is stored here that could expire
	Labels         []struct{}  `json:"labels"`
	CreatedAt      time.Time   `json:"createdAt"`
	UpdatedAt      time.Time   `json:"updatedAt"`
	Links          links       `json:"links"`
}

func showBucket(b metadata.Bucket) bucket {
	id, org := b.ID.String(), b.OrgID.String()
	return bucket{
		ID: b.ID, OrgID: b.OrgID, Type: "user", Name: b.Name, Description: b.Description,
		RetentionRules: []struct{}{}, Labels: []struct{}{}, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt,
		Links: links{"self": "/api/v2/buckets/" + id, "org": "/api/v2/orgs/" + org, "write": "/api/v2/write?org=" + org + "&bucket=" + id},
	}
}

type bucketBody struct {
	OrgID       optional[metadata.ID] `json:"orgID"`
	Name        optional[string]      `json:"name"`
	Description optional[string]      `json:"description"`
}

func (b bucketBody) change(to *metadata.Bucket) error {
	b.Name.giveValue(&to.Name)
	b.Description.giveValue(&to.Description)
	return nil
}

func seesBucket(who server.Principal, b metadata.Bucket) bool {
	r := resource("buckets", b.ID, b.OrgID)
	return who.May(server.Read, r) || who.May(server.Write, r)
}

func (a *API) listBuckets(c *call) error {
	offset, limit, err := c.page()
	if err != nil {
		return err
	}
	orgID, err := c.queryID("orgID")
	if err != nil {
		return err
	}
	id, err := c.queryID("id")
	if err != nil {
		return err
	}
	after, err := c.queryID("after")
	if err != nil {
		return err
	}
	query := c.URL.Query()
	found := []bucket{}
	if name := query.Get("org"); name != "" {
		o, err := a.service.FindOrg(name)
		if err != nil {
			return err
		}
		orgID = o.ID
	}
	name := query.Get("name")
	for _, b := range a.service.Buckets() {
		if seesBucket(c.who, b) && (orgID == 0 || b.OrgID == orgID) && (id == 0 || b.ID == id) && (name == "" || b.Name == name) && b.ID > after {
			found = append(found, showBucket(b))
		}
	}
	return c.answer(http.StatusOK, struct {
		Links   links    `json:"links"`
		Buckets []bucket `json:"buckets"`
	}{links{"self": "/api/v2/buckets"}, cut(found, offset, limit)})
}

func (a *API) createBucket(c *call) error {
	var body bucketBody
	if err := c.decode(&body); err != nil {
		return err
	}
	var b metadata.Bucket
	body.OrgID.giveValue(&b.OrgID)
	_ = body.change(&b) // it never fails
	if b.OrgID == 0 {
		return refuse(http.StatusBadRequest, "invalid or missing org ID: give orgID")
	}
	if err := c.may(server.Write, resource("buckets", 0, b.OrgID)); err != nil {
		return err
	}
	b, err := a.service.CreateBucket(c.Context(), b)
	if err != nil {
		return given(err)
	}
	return c.answer(http.StatusCreated, showBucket(b))
}

// bucket returns the bucket of the path.
func (a *API) bucket(c *call) (metadata.Bucket, error) {
	id, err := c.pathID(metadata.KindBucket)
	if err != nil {
		return metadata.Bucket{}, err
	}
	return a.service.Bucket(id)
}

func (a *API) getBucket(c *call) error {
	b, err := a.bucket(c)
	if err != nil {
		return err
	}
	if !seesBucket(c.who, b) {
		return c.may(server.Read, resource("buckets", b.ID, b.OrgID))
	}
	return c.answer(http.StatusOK, showBucket(b))
}

// manages asks for what changing or deleting a bucket takes: more than writing points to it.
func (c *call) manages(b metadata.Bucket) error {
	return c.may(server.Write, resource("buckets", 0, b.OrgID))
}

func (a *API) updateBucket(c *call) error {
	b, err := a.bucket(c)
	if err != nil {
		return err
	}
	if err := c.manages(b); err != nil {
		return err
	}
	var body bucketBody
	if err := c.decode(&body); err != nil {
		return err
	}
	if b, err = a.service.UpdateBucket(c.Context(), b.ID, body.change); err != nil {
		return err
	}
	return c.answer(http.StatusOK, showBucket(b))
}

func (a *API) deleteBucket(c *call) error {
	id, err := c.pathID(metadata.KindBucket)
	if err != nil {
		return err
	}
	b, err := a.service.DeletableBucket(id)
	if err != nil {
		return err
	}
	if err := c.manages(b); err != nil {
		return err
	}
	if err := c.may(server.Write, resource("replications", 0, b.OrgID)); err != nil {
		return err // its streams go with it
	}
	if err := a.service.DeleteBucket(c.Context(), b.ID); err != nil {
		return err
	}
	return c.done()
}
