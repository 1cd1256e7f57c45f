package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
)

// Deps are the parts that a Server works with.
type Deps struct {
	// Intake takes writes. Required.
	Intake Intake
	// Authorizer says what a token may do. Required.
	Authorizer Authorizer
	// Health says how the server does; nil means always well, without streams.
	Health Health
	// Databases makes and lists buckets for /query; nil means that neither can be done.
	Databases Databases
	// Routes are further routes; see Route.
	Routes []Route
	// Registerer takes the server's metrics; nil means that they are not registered.
	Registerer prometheus.Registerer
	// Gatherer is what /metrics shows; nil means that there is no /metrics.
	Gatherer prometheus.Gatherer
	// Log takes the logs. Default: slog.Default().
	Log *slog.Logger
	// Now is the clock that points without a timestamp get their time from. Default: time.Now.
	Now func() time.Time
}

// A Bucket is a place that clients write to. OrgID is the organisation that owns it.
type Bucket struct{ ID, Name, OrgID string }

// An Intake makes writes durable. Its methods are called concurrently.
type Intake interface {
	// Bucket finds a bucket by its id or its name; an id goes first. org is the organisation that the
	// client names, by id or name, or empty: it decides between buckets of one name. If there is none,
	// it returns an *UnknownBucketError.
	Bucket(ctx context.Context, org, ref string) (Bucket, error)

	// Write makes one write request durable in all streams of the bucket that has this id. It does
	// not keep the blocks' memory after it has returned. Its errors are told apart as documented at
	// UnknownBucketError, QueueFullError, UnavailableError, TooLargeError and StoreError; any other is answered 500.
	Write(ctx context.Context, bucket string, blocks []lineprotocol.Block) error
}

// An Authorizer knows who holds which token. Its method is called concurrently.
type Authorizer interface {
	// Authorize returns whose token it is, or ok = false if it is nobody's. It takes the same time
	// for all tokens that are wrong (compare constantly, or compare hashes). It keeps the token to
	// itself.
	Authorize(ctx context.Context, token string) (p Principal, ok bool)
}

// Actions of a Grant.
const (
	Read  = "read"
	Write = "write"
)

// A Resource is something that needs a permission.
type Resource struct {
	// Type is orgs, buckets, remotes, replications or authorizations.
	Type string
	// ID is empty for one that does not exist yet, and OrgID for an organisation that does not.
	ID, OrgID string
}

// A Grant allows one action on resources of one type: on all of them, those of one organisation, or one.
type Grant struct{ Action, Type, ID, OrgID string }

func (g Grant) covers(action string, r Resource) bool {
	return g.Action == action && g.Type == r.Type && (g.ID == "" || g.ID == r.ID) && (g.OrgID == "" || g.OrgID == r.OrgID)
}

// A Principal is who sends a request, and what it may do.
type Principal struct {
	// Name identifies it in logs. It is never the token.
	Name string
	// Manage allows everything.
	Manage bool
	// Grants are what it may do if it may not do everything.
	Grants []Grant
}

// May reports whether it may do something.
func (p Principal) May(action string, r Resource) bool {
	if p.Manage {
		return true
	}
	for _, g := range p.Grants {
		if g.covers(action, r) {
			return true
		}
	}
	return false
}

func (b Bucket) resource() Resource { return Resource{Type: "buckets", ID: b.ID, OrgID: b.OrgID} }

// MayWrite reports whether it may write to the bucket.
func (p Principal) MayWrite(b Bucket) bool { return p.May(Write, b.resource()) }

// MayRead reports whether it may see the bucket.
func (p Principal) MayRead(b Bucket) bool { return p.May(Read, b.resource()) }

// Health says how the server does. Its methods are called concurrently, and answer at once.
type Health interface {
	// Accepting returns nil if writes can be made durable now, and otherwise why not.
	Accepting(ctx context.Context) error
	// Streams returns all streams.
	Streams(ctx context.Context) []StreamHealth
}

// StreamHealth is how one stream does.
type StreamHealth struct {
	ID     string `json:"id"`
	Name   string `json:"name,omitempty"`
	Bucket string `json:"bucket,omitempty"`
	// Stalled says that the stream makes no progress although it has something to send.
	Stalled bool `json:"stalled"`
	// Reason says why, and what to do; never with a secret in it.
	Reason string `json:"reason,omitempty"`
}

// Databases makes and lists buckets, as /query calls them databases.
type Databases interface {
	// Owner returns the id of the organisation that a bucket would belong to. org is the one that the client
	// names, by id or name, or empty. If there is none of that name, it returns an *UnknownOrgError.
	Owner(ctx context.Context, org string) (id string, err error)
	// Create makes a bucket of this name, unless the owner has one.
	Create(ctx context.Context, owner, name string) error
	// List returns all buckets.
	List(ctx context.Context) ([]Bucket, error)
}
