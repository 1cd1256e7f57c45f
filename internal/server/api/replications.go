package api

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol/filter"
	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/server"
	"github.com/tailrace-cdc/tailrace/logical"
)

type replicationDoc struct {
	ID                       metadata.ID `json:"id"`
	OrgID                    metadata.ID `json:"orgID"`
	Name                     string      `json:"name"`
	Description              *string     `json:"description,omitempty"`
	RemoteID                 metadata.ID `json:"remoteID"`
	LocalBucketID            metadata.ID `json:"localBucketID"`
	RemoteBucketID           *string     `json:"remoteBucketID"`
	RemoteBucketName         string      `json:"remoteBucketName"`
	RemoteBucketNameCapital  string      `json:"RemoteBucketName"` // as InfluxDB spells it
	MaxQueueSizeBytes        int64       `json:"maxQueueSizeBytes"`
	CurrentQueueSizeBytes    int64       `json:"currentQueueSizeBytes"`
	RemainingBytesToBeSynced int64       `json:"remainingBytesToBeSynced"`
	LatestResponseCode       *int        `json:"latestResponseCode,omitempty"`
	LatestErrorMessage       string      `json:"latestErrorMessage"`
	DropNonRetryableData     bool        `json:"dropNonRetryableData"`
	MaxAgeSeconds            int64       `json:"maxAgeSeconds"`

	// What Tailrace adds.
	Paused          bool             `json:"paused"`
	QueueFullPolicy string           `json:"queueFullPolicy"`
	OnReject        string           `json:"onReject"`
	BackfillWindow  duration         `json:"backfillWindow"`
	FanShards       int              `json:"fanShards"`
	BytesInFlight   int64            `json:"bytesInFlight"`
	Filter          *filter.Config   `json:"filter"`
	FilteredPoints  uint64           `json:"filteredPoints"`
	Mode            string           `json:"mode"`
	State           string           `json:"state"`
	StateReason     string           `json:"stateReason"`
	Advice          string           `json:"advice"`
	Notice          string           `json:"notice"`
	Stalled         bool             `json:"stalled"`
	LagSeconds      float64          `json:"lagSeconds"`
	LatestErrorAt   *time.Time       `json:"latestErrorAt"`
	LastSuccessAt   *time.Time       `json:"lastSuccessAt"`
	DeadLetters     *int64           `json:"deadLetters"`
	Lost            int64            `json:"lost"`
	LostByReason    map[string]int64 `json:"lostByReason"`
}

// show returns the document of a stream, with how it does now.
func (a *API) show(ctx context.Context, s metadata.Stream) replicationDoc {
	in, st := a.service.Effective(s), a.service.Status(ctx, s.ID)
	doc := replicationDoc{
		ID: s.ID, OrgID: s.OrgID, Name: s.Name, Description: s.Description, RemoteID: s.RemoteID, LocalBucketID: s.BucketID,
		RemoteBucketID: s.RemoteBucketID, MaxQueueSizeBytes: in.MaxQueueBytes, CurrentQueueSizeBytes: st.DiskBytes,
		RemainingBytesToBeSynced: st.UnsentBytes, LatestErrorMessage: st.LastError,
		DropNonRetryableData: in.OnReject == string(logical.RejectDiscard), MaxAgeSeconds: s.MaxAgeSeconds,
		Paused: s.Paused, QueueFullPolicy: in.QueueFullPolicy, OnReject: in.OnReject, BackfillWindow: duration(in.BackfillWindow),
		FanShards: in.FanShards, BytesInFlight: in.BytesInFlight, Mode: st.Mode, State: string(st.State), StateReason: st.Reason,
		Advice: st.Advice, Notice: st.Notice, Stalled: st.Stalled, LagSeconds: st.Lag.Seconds(), LatestErrorAt: orNull(st.LastErrorAt),
		LastSuccessAt: orNull(st.LastSuccessAt), LostByReason: st.Lost,
	}
	doc.FilteredPoints = st.Filtered
	if s.Filter != nil {
		_ = json.Unmarshal([]byte(*s.Filter), &doc.Filter) // it was checked before it was stored
	}
	if s.RemoteBucketName != nil {
		doc.RemoteBucketName, doc.RemoteBucketNameCapital = *s.RemoteBucketName, *s.RemoteBucketName
	}
	if st.Answered {
		doc.LatestResponseCode = &st.ResponseCode
	}
	if st.LettersKnown {
		doc.DeadLetters = &st.DeadLetters
	}
	for _, n := range st.Lost {
		doc.Lost += n
	}
	return doc
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

type replicationBody struct {
	OrgID                optional[metadata.ID] `json:"orgID"`
	Name                 optional[string]      `json:"name"`
	Description          optional[string]      `json:"description"`
	RemoteID             optional[metadata.ID] `json:"remoteID"`
	LocalBucketID        optional[metadata.ID] `json:"localBucketID"`
	RemoteBucketID       optional[string]      `json:"remoteBucketID"`
	RemoteBucketName     optional[string]      `json:"remoteBucketName"`
	MaxQueueSizeBytes    optional[int64]       `json:"maxQueueSizeBytes"`
	DropNonRetryableData optional[bool]        `json:"dropNonRetryableData"`
	MaxAgeSeconds        optional[int64]       `json:"maxAgeSeconds"`

	Paused          optional[bool]     `json:"paused"`
	QueueFullPolicy optional[string]   `json:"queueFullPolicy"`
	OnReject        optional[string]   `json:"onReject"`
	BackfillWindow  optional[duration] `json:"backfillWindow"`
	FanShards       optional[int]      `json:"fanShards"`
	BytesInFlight   optional[int64]    `json:"bytesInFlight"`

	Filter optional[filter.Config] `json:"filter"`
}

func (b replicationBody) change(s *metadata.Stream) error {
	b.Name.giveValue(&s.Name)
	b.Description.give(&s.Description)
	b.RemoteID.giveValue(&s.RemoteID)
	b.RemoteBucketID.give(&s.RemoteBucketID)
	b.RemoteBucketName.give(&s.RemoteBucketName)
	if b.RemoteBucketName.Value != nil && !b.RemoteBucketID.Set {
		s.RemoteBucketID = nil // the id would go first
	}
	b.MaxQueueSizeBytes.give(&s.MaxQueueBytes)
	b.MaxAgeSeconds.giveValue(&s.MaxAgeSeconds)
	b.Paused.giveValue(&s.Paused)
	b.QueueFullPolicy.give(&s.QueueFullPolicy)
	b.OnReject.give(&s.OnReject)
	if b.BackfillWindow.Set {
		s.BackfillWindow = (*time.Duration)(b.BackfillWindow.Value)
	}
	b.FanShards.give(&s.FanShards)
	b.BytesInFlight.give(&s.BytesInFlight)
	if b.Filter.Set {
		s.Filter = nil
		if b.Filter.Value != nil {
			text, err := json.Marshal(b.Filter.Value)
			if err != nil {
				return refuse(http.StatusBadRequest, "filter: %v", err)
			}
			stored := string(text)
			s.Filter = &stored
		}
	}
	if drop := b.DropNonRetryableData.Value; drop != nil && !b.OnReject.Set {
		discards := s.OnReject != nil && *s.OnReject == string(logical.RejectDiscard)
		switch {
		case *drop:
			discard := string(logical.RejectDiscard)
			s.OnReject = &discard
		case discards:
			s.OnReject = nil
		}
	}
	return nil
}

// DefaultQueueBytes is the queue of a replication that says nothing of it, as in InfluxDB.
const DefaultQueueBytes = 67108860

func (a *API) listReplications(c *call) error {
	f := metadata.StreamFilter{Name: c.URL.Query().Get("name")}
	var err error
	if f.OrgID, err = c.orgID(); err != nil {
		return err
	}
	if f.RemoteID, err = c.queryID("remoteID"); err != nil {
		return err
	}
	if f.BucketID, err = c.queryID("localBucketID"); err != nil {
		return err
	}
	streams, err := a.service.Streams(c.Context(), f)
	if err != nil {
		return err
	}
	visible := []metadata.Stream{}
	for _, s := range streams {
		if c.who.May(server.Read, resource("replications", s.ID, s.OrgID)) {
			visible = append(visible, s)
		}
	}
	return c.answer(http.StatusOK, struct {
		Replications []replicationDoc `json:"replications"`
	}{a.showAll(c.Context(), visible)})
}

// listWithin bounds how long a list waits for what targets tell, for all of them together.
const listWithin = time.Second

func (a *API) showAll(ctx context.Context, streams []metadata.Stream) []replicationDoc {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	docs := make([]replicationDoc, len(streams))
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(32)
	for i, s := range streams {
		group.Go(func() error {
			doc := a.show(ctx, s)
			mu.Lock()
			defer mu.Unlock()
			docs[i] = doc
			return nil
		})
	}
	_ = group.Wait() // none fails
	return docs
}

func (a *API) createReplication(c *call) error {
	var body replicationBody
	if err := c.decode(&body); err != nil {
		return err
	}
	var size int64 = DefaultQueueBytes
	s := metadata.Stream{MaxQueueBytes: &size}
	body.OrgID.giveValue(&s.OrgID)
	body.LocalBucketID.giveValue(&s.BucketID)
	if err := body.change(&s); err != nil {
		return err
	}
	switch {
	case s.OrgID == 0:
		return refuse(http.StatusBadRequest, "invalid or missing org ID: give orgID")
	case s.RemoteID == 0:
		return refuse(http.StatusBadRequest, "remoteID: name the remote")
	case s.BucketID == 0:
		return refuse(http.StatusBadRequest, "localBucketID: name the bucket")
	}
	if err := c.may(server.Write, resource("replications", 0, s.OrgID)); err != nil {
		return err
	}
	bucket, err := a.service.Bucket(s.BucketID)
	if err != nil {
		return given(err)
	}
	if err := c.may(server.Read, resource("buckets", bucket.ID, bucket.OrgID)); err != nil {
		return err
	}
	if err := a.needs(c, s); err != nil {
		return err
	}
	if c.URL.Query().Get("validate") == "true" {
		return a.validate(c, s)
	}
	s, err = a.service.CreateStream(c.Context(), s)
	if err != nil {
		return given(err)
	}
	return c.answer(http.StatusCreated, a.show(c.Context(), s))
}

// needs asks for the right to use the remote, and for a bucket where the remote has buckets.
func (a *API) needs(c *call, s metadata.Stream) error {
	r, err := a.service.Remote(c.Context(), s.RemoteID)
	if err != nil {
		return given(err)
	}
	if err := c.may(server.Read, resource("remotes", r.ID, r.OrgID)); err != nil {
		return err
	}
	if a.service.NeedsBucket(r) && (s.RemoteBucketID == nil || *s.RemoteBucketID == "") && (s.RemoteBucketName == nil || *s.RemoteBucketName == "") {
		return refuse(http.StatusUnprocessableEntity, "give remoteBucketID or remoteBucketName: where in the remote the data goes")
	}
	return nil
}

// replication returns the stream of the path, if that may be done with it.
func (a *API) replication(c *call, action string) (metadata.Stream, error) {
	id, err := c.pathID(metadata.KindStream)
	if err != nil {
		return metadata.Stream{}, err
	}
	s, err := a.service.Stream(c.Context(), id)
	if err != nil {
		return s, err
	}
	return s, c.may(action, resource("replications", s.ID, s.OrgID))
}

func (a *API) getReplication(c *call) error {
	s, err := a.replication(c, server.Read)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, a.show(c.Context(), s))
}

func (a *API) updateReplication(c *call) error {
	s, err := a.replication(c, server.Write)
	if err != nil {
		return err
	}
	var body replicationBody
	if err := c.decode(&body); err != nil {
		return err
	}
	proposed := s
	if err := body.change(&proposed); err != nil {
		return err
	}
	if proposed.RemoteID != s.RemoteID || body.RemoteBucketID.Set || body.RemoteBucketName.Set {
		if err := a.needs(c, proposed); err != nil {
			return err
		}
	}
	if c.URL.Query().Get("validate") == "true" {
		return a.validate(c, proposed)
	}
	if s, err = a.service.UpdateStream(c.Context(), s.ID, body.change); err != nil {
		return given(err)
	}
	return c.answer(http.StatusOK, a.show(c.Context(), s))
}

func (a *API) deleteReplication(c *call) error {
	s, err := a.replication(c, server.Write)
	if err != nil {
		return err
	}
	if err := a.service.DeleteStream(c.Context(), s.ID); err != nil {
		return err
	}
	return c.done()
}

func (a *API) validateReplication(c *call) error {
	s, err := a.replication(c, server.Read)
	if err != nil {
		return err
	}
	return a.validate(c, s)
}

// validate tries a stream's remote.
func (a *API) validate(c *call, s metadata.Stream) error {
	if err := a.service.Validate(c.Context(), s); err != nil {
		return refuse(http.StatusBadRequest, "replication parameters fail validation: %v", err)
	}
	return c.done()
}
