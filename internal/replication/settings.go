package replication

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol/filter"
	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/remote"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	"github.com/tailrace-cdc/tailrace/logical"
)

var policies = map[string]queue.Policy{"refuse": queue.Refuse, "dropOldest": queue.DropOldest, "dropNewest": queue.DropNewest}

// MinQueueBytes is the smallest queue that a stream may ask for.
const MinQueueBytes = 1 << 20

// checkSettings reports the first setting of a stream that cannot work.
func checkSettings(c influxlogical.StreamConfig, st metadata.Stream) error {
	invalid := func(field, reason string) error { return &metadata.InvalidError{Field: field, Reason: reason} }
	if st.MaxQueueBytes != nil && *st.MaxQueueBytes < MinQueueBytes {
		return invalid("maxQueueSizeBytes", "it is too small; give at least 1048576")
	}
	if st.QueueFullPolicy != nil {
		if _, ok := policies[*st.QueueFullPolicy]; !ok {
			return invalid("queueFullPolicy", "give refuse, dropOldest or dropNewest")
		}
	}
	if st.OnReject != nil && !slices.Contains([]logical.RejectPolicy{logical.RejectStop, logical.RejectDeadLetter, logical.RejectDiscard}, logical.RejectPolicy(*st.OnReject)) {
		return invalid("onReject", "give deadLetter, discard or stop")
	}
	if st.BackfillWindow != nil && *st.BackfillWindow < 0 {
		return invalid("backfillWindow", "it is negative; give a duration such as 10m, or 0s for never")
	}
	if st.FanShards != nil && (*st.FanShards < 1 || *st.FanShards > 1024) {
		return invalid("fanShards", "give a number from 1 to 1024")
	}
	if st.BytesInFlight != nil && *st.BytesInFlight < logical.MinBytesInFlight {
		return invalid("bytesInFlight", "it is too small; give at least 65536")
	}
	if _, err := compile(st); err != nil {
		return invalid("filter", err.Error())
	}
	if err := c.Loop.Validate(); err != nil {
		return invalid("settings", err.Error())
	}
	return nil
}

// Effective is what is in force of a stream's settings, where some are the server's.
type Effective struct {
	MaxQueueBytes   int64
	QueueFullPolicy string
	OnReject        string
	BackfillWindow  time.Duration
	FanShards       int
	BytesInFlight   int64
}

// Effective returns the settings that are in force for a stream.
func (s *Service) Effective(st metadata.Stream) Effective {
	loop, limits := s.loop(st).WithDefaults(), s.limits(st)
	return Effective{
		MaxQueueBytes: limits.MaxBytes, QueueFullPolicy: limits.Policy.String(), OnReject: string(loop.OnReject),
		BackfillWindow: loop.BackfillWindow, FanShards: loop.FanShards, BytesInFlight: loop.BytesInFlight,
	}
}

func (s *Service) loop(st metadata.Stream) logical.Config {
	loop := s.config.Loop
	if st.OnReject != nil {
		loop.OnReject = logical.RejectPolicy(*st.OnReject)
	}
	if st.BackfillWindow != nil {
		loop.BackfillWindow = *st.BackfillWindow
	}
	if st.FanShards != nil {
		loop.FanShards = *st.FanShards
	}
	if st.BytesInFlight != nil {
		loop.BytesInFlight = *st.BytesInFlight
	}
	return loop
}

func (s *Service) limits(st metadata.Stream) queue.Limits {
	limits := s.config.Queue.Limits
	if st.MaxQueueBytes != nil {
		limits.MaxBytes = *st.MaxQueueBytes
	}
	if limits.MaxBytes == 0 {
		limits.MaxBytes = queue.DefaultMaxBytes
	}
	if st.QueueFullPolicy != nil {
		limits.Policy = policies[*st.QueueFullPolicy]
	}
	limits.MaxAge = time.Duration(st.MaxAgeSeconds) * time.Second
	return limits
}

// compile returns the stream's filter; nil takes all points.
func compile(st metadata.Stream) (*filter.Filter, error) {
	if st.Filter == nil {
		return nil, nil
	}
	var c filter.Config
	if err := json.Unmarshal([]byte(*st.Filter), &c); err != nil {
		return nil, err
	}
	return filter.Compile(c)
}

// runConfig returns how a stream is to run.
func (s *Service) runConfig(st metadata.Stream, r metadata.Remote) influxlogical.StreamConfig {
	c := influxlogical.StreamConfig{
		ID: st.ID.String(), Name: st.Name, Bucket: st.BucketID.String(), Loop: s.loop(st), Queue: s.config.Queue, Paused: st.Paused,
	}
	c.Queue.Limits = s.limits(st)
	c.Filter, _ = compile(st) // it was checked before it was stored
	connection, err := s.connection(st, r)
	if connection.Address.Kind != remote.Influx && st.RemoteBucketName != nil {
		c.Schema = *st.RemoteBucketName
	}
	c.Remote = influxlogical.Remote{
		Place: connection.Place(), Connection: connection.Key(), Server: connection.Server(), Letters: connection.Place(),
	}
	if connection.Address.Kind == remote.Influx {
		c.Remote.Letters = installationLetters
	}
	if err != nil {
		c.Remote.Connection += " " + err.Error()
	}
	c.Remote.Open = func(ctx context.Context) (logical.Target, func(), error) {
		connection, err := s.connection(st, r) // what was wrong with it may have healed
		if err != nil {
			return nil, nil, err
		}
		return s.pool.Get(ctx, connection.Key(), func(ctx context.Context) (logical.Target, error) {
			return s.config.Open(ctx, connection)
		})
	}
	return c
}

// installationLetters stands for the installation's own store of dead letters.
const installationLetters = "installation"

// ErrSecretMissing is why a stream cannot run whose remote's secret cannot be read.
var ErrSecretMissing = errors.New("the secret of the remote cannot be read: the key file secret.key is not the one that it was stored with")

// connection returns how a stream's target is opened, or why it cannot be.
func (s *Service) connection(st metadata.Stream, r metadata.Remote) (remote.Connection, error) {
	a, _, err := remote.Parse(r.URL)
	c := remote.Connection{Address: a, Secret: r.Secret, AllowInsecureTLS: r.AllowInsecureTLS}
	switch {
	case err != nil:
		return c, &logical.Error{Err: err, Hint: "correct the remote's remoteURL"}
	case a.Kind == remote.Influx:
		c.Stream, c.Org, c.Bucket = st.ID.String(), first(r.RemoteOrgID), first(st.RemoteBucketID, st.RemoteBucketName)
	case a.Kind == remote.SQLite && r.Unrestricted:
		c.Address.Path = s.config.Limits.Resolve(a.Path)
	}
	if r.SecretMissing {
		return c, &logical.Error{Err: ErrSecretMissing, Hint: "put the key file back and restart, or give the remote its remoteAPIToken again"}
	}
	if r.Unrestricted {
		return c, nil
	}
	c, err = s.config.Limits.Limit(c)
	if remote.IsRefused(err) {
		return c, &logical.Error{Err: err, Hint: refusedAdvice}
	}
	return c, err
}

// first returns the first text that is there.
func first(texts ...*string) string {
	for _, t := range texts {
		if t != nil && *t != "" {
			return *t
		}
	}
	return ""
}
