// Package influx opens a target that is an InfluxDB 1.x, 2.x or 3, or something that takes its line protocol over
// HTTP, such as VictoriaMetrics or a Tailrace server.
//
// What is sent are the lines of mutations ([logical.Mutation.Raw]), as they came: a dialect for this target gives
// each point its line, and [logical.Mutation.Route] as a hash of its series, so that the points of a series keep their order.
// Values are not looked at.
//
// The target is not transactional: delivery is at least once, and a consistent point is not stored. The source's own
// cursor is the consistent point, so the dialect implements [logical.Acknowledger], and its ZeroStamp stands for that cursor.
// Two processes are not kept from running one loop; give each its own source, or a [logical.Lessor].
package influx

import (
	"context"
	"log/slog"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-cdc/tailrace/internal/target/influx"
	"github.com/tailrace-cdc/tailrace/internal/util/outbound"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A LetterStore keeps dead letters, since the remote has no place for them. Package logical/deadletter has one that is a
// file. Its methods may be called concurrently.
type LetterStore interface {
	logical.DeadLetters
	// Exchange removes letters of a loop by their IDs, and then stores others, all or nothing, durably when it
	// returns. A letter that its loop has already (see [logical.DeadLetter.Fingerprint]) is not stored once more.
	Exchange(ctx context.Context, loop string, remove []int64, letters []logical.DeadLetter) error
}

// Config says where the remote is and how it is used.
type Config struct {
	// URL is where the remote's API begins: http or https, with a path prefix if it has one. A user and a
	// password in it are taken as Username and Password, and not shown. Required.
	URL string
	// Kind is which write API the remote has: "1", "2", "3", or "auto", which asks it. Default "auto".
	Kind string
	// Org is the organization's name or ID; 2.x only.
	Org string
	// Bucket is the bucket's name or ID; for 1.x it is "database" or "database/retention policy", for 3 the
	// database. Required.
	Bucket string
	// Token authenticates; without Username. It is never logged.
	Token string
	// Username and Password authenticate by basic authentication.
	Username, Password string
	// AllowInsecureTLS accepts any certificate.
	AllowInsecureTLS bool
	// CAFile holds certificates, PEM, that are trusted beside the system's.
	CAFile string
	// AllowHosts bounds what may be connected to, for addresses that somebody else names: names with * for any
	// characters, addresses, ranges of addresses (CIDR). A name alone may lead to public addresses only. Default: every host
	// but those of the cloud's metadata services and other link-local ones.
	AllowHosts []string
	// Version is told to the remote in the user agent, tailrace/<version>. Default "unknown".
	Version string
	// MaxRequestBytes bounds a request's lines before compression. Default 4 MiB; a remote that refuses a
	// request as too large makes it smaller.
	MaxRequestBytes int
	// Compression says whether bodies are compressed: "gzip", "none", or "auto": unless the remote is on this machine.
	// Default "auto".
	Compression string
	// Parallel bounds the requests in flight of one loop in fan mode. Default: its FanShards.
	Parallel int
	// DeadLetters keeps what the remote rejects. The target does not close it. Without it, logical.Config.OnReject can
	// be to stop or to discard; a loop that is to set something aside stays in state retrying, and says so.
	DeadLetters LetterStore
	// Metrics shows the traffic with the remote (docs/metrics.md, replications_queue_remote_write_…) until the target is
	// closed. Default: nothing is shown.
	Metrics prometheus.Registerer
	// Name tells the remote from others in Metrics, as label replicationID.
	Name string
	// Logger receives what an operator may want to know. Default: nothing is logged.
	Logger *slog.Logger
}

// Open returns the target. It does not connect: a remote that is down is told by the loops that use it, and
// may heal. An error says which setting cannot work; it holds no secret. The target also implements
// [logical.DeadLetters], with what Config.DeadLetters keeps.
//
// Any number of loops may share the target.
func Open(config Config) (logical.Target, error) {
	inner, err := config.inner()
	if err != nil {
		return nil, err
	}
	remote, err := influx.Open(inner)
	if err != nil {
		return nil, err
	}
	if config.Metrics == nil {
		return remote, nil
	}
	shown := remote.Collector()
	if err := config.Metrics.Register(shown); err != nil {
		_ = remote.Close() // it has no connections yet
		return nil, errors.Wrapf(err, "influx: the metrics of %q; give each target a Name of its own", config.Name)
	}
	return &measured{remote, func() { config.Metrics.Unregister(shown) }}, nil
}

// measured is a target whose metrics end with it.
type measured struct {
	*influx.Target
	hide func()
}

// Close implements logical.Target.
func (m *measured) Close() error {
	m.hide()
	return m.Target.Close()
}

func (c Config) inner() (influx.Config, error) {
	hosts, err := outbound.NewPolicy(c.AllowHosts)
	if err != nil {
		return influx.Config{}, errors.WithMessage(err, "influx: AllowHosts")
	}
	inner := influx.Config{
		ID: c.Name, URL: c.URL, Kind: influx.Kind(c.Kind), Org: c.Org, Bucket: c.Bucket, Token: c.Token,
		Username: c.Username, Password: c.Password, AllowInsecureTLS: c.AllowInsecureTLS, CAFile: c.CAFile, Outbound: hosts,
		Version: c.Version, MaxRequestBytes: c.MaxRequestBytes, Compression: influx.Compression(c.Compression),
		Parallel: c.Parallel, Logger: c.Logger,
	}
	if c.DeadLetters != nil {
		inner.DeadLetters = c.DeadLetters
	}
	return inner, nil
}
