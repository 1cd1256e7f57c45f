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
	// Registerer takes the server's metrics; nil means that they are not registered.
	Registerer prometheus.Registerer
	// Gatherer is what /metrics shows; nil means that there is no /metrics.
	Gatherer prometheus.Gatherer
	// Log takes the logs. Default: slog.Default().
	Log *slog.Logger
	// Now is the clock that points without a timestamp get their time from. Default: time.Now.
	Now func() time.Time
}

// A Bucket is a place that clients write to.
type Bucket struct{ ID, Name string }

// An Intake makes writes durable. Its methods are called concurrently.
type Intake interface {
	// Bucket finds a bucket by its id or its name; an id goes first. If there is none, it returns an
	// *UnknownBucketError.
	Bucket(ctx context.Context, ref string) (Bucket, error)

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

// AllBuckets in a Principal stands for every bucket.
const AllBuckets = "*"

// A Principal is who sends a request, and what it may do.
type Principal struct {
	// Name identifies it in logs. It is never the token.
	Name string
	// Manage allows everything.
	Manage bool
	// Write and Read are the ids of the buckets that it may write to and read from.
	Write, Read []string
}

// MayWrite reports whether it may write to the bucket.
func (p Principal) MayWrite(b Bucket) bool { return p.Manage || covers(p.Write, b) }

// MayRead reports whether it may see the bucket.
func (p Principal) MayRead(b Bucket) bool { return p.Manage || covers(p.Read, b) }

func covers(ids []string, b Bucket) bool {
	for _, id := range ids {
		if id == b.ID || id == AllBuckets {
			return true
		}
	}
	return false
}

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
	// Create makes a bucket of this name, unless there is one.
	Create(ctx context.Context, name string) error
	// List returns all buckets.
	List(ctx context.Context) ([]Bucket, error)
}
