package influx

import (
	"context"
	"log/slog"
	"net/url"
	"strings"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/util/outbound"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Kind says which write API a remote has.
type Kind string

// The kinds.
const (
	// Auto asks the remote.
	Auto Kind = "auto"
	// V1 is InfluxDB 1.x: /write with a database and a retention policy.
	V1 Kind = "1"
	// V2 is InfluxDB 2.x, InfluxDB Cloud and what imitates them: /api/v2/write with a bucket.
	V2 Kind = "2"
	// V3 is InfluxDB 3: /api/v3/write_lp with a database.
	V3 Kind = "3"
)

// Compression says whether bodies are compressed.
type Compression string

// The choices.
const (
	// CompressAuto compresses unless the remote is on this machine.
	CompressAuto Compression = "auto"
	// CompressGzip compresses always.
	CompressGzip Compression = "gzip"
	// CompressNone never compresses.
	CompressNone Compression = "none"
)

// A LetterStore keeps dead letters for targets that cannot.
type LetterStore interface {
	logical.DeadLetters
	// Exchange removes letters of a loop by their IDs, and then stores others, all or nothing, durably when it
	// returns. Letters that are there already are not stored twice.
	Exchange(ctx context.Context, loop string, remove []int64, letters []logical.DeadLetter) error
}

// Config says where a remote is and how it is used.
type Config struct {
	// ID names the stream in metrics, as label replicationID.
	ID string
	// URL is where the remote's API begins: http or https, with a path prefix if it has one. A user and
	// a password in it are taken as Username and Password, and not shown.
	URL string
	// Kind is which API the remote has. Default Auto.
	Kind Kind
	// Org is the organisation's name or ID; 2.x only.
	Org string
	// Bucket is the bucket's name or ID. For 1.x it is "database" or "database/retention policy", for 3.x the
	// database.
	Bucket string
	// Token authenticates; without Username.
	Token string
	// Username and Password authenticate by basic authentication.
	Username, Password string
	// AllowInsecureTLS accepts any certificate.
	AllowInsecureTLS bool
	// Outbound says which hosts may be connected to; nil allows every one.
	Outbound *outbound.Policy
	// CAFile holds certificates, PEM, that are trusted beside the system's.
	CAFile string
	// Version is told in the user agent, tailrace/<version>. Default "unknown".
	Version string
	// MaxRequestBytes bounds a request's lines before compression. Default 4 MiB; a remote that refuses
	// a request as too large makes it smaller.
	MaxRequestBytes int
	// Compression says whether bodies are compressed. Default CompressAuto.
	Compression Compression
	// Parallel bounds the requests in flight of one loop in fan mode; 0 is the loop's FanShards.
	Parallel int
	// DeadLetters keeps what the remote rejects. Without it nothing can be set aside.
	DeadLetters LetterStore
	// Logger receives what an operator may want to know. Default: nothing is logged.
	Logger *slog.Logger
}

// defaultRequest is where joining more saves nothing: a request of 4 MiB is some 50,000 points, and well
// below the 10 MiB that InfluxDB 3 takes.
const defaultRequest = 4 << 20

// normal returns the configuration with its defaults, and the URL without secrets.
func (c Config) normal() (Config, *url.URL, error) {
	base, err := parseBase(c.URL)
	if err != nil {
		return c, nil, err
	}
	if base.User != nil {
		if c.Username == "" {
			c.Username = base.User.Username()
			c.Password, _ = base.User.Password()
		}
		base.User = nil
	}
	c.URL = base.String()
	setDefault(&c.Kind, Auto)
	setDefault(&c.Compression, CompressAuto)
	setDefault(&c.MaxRequestBytes, defaultRequest)
	setDefault(&c.Version, "unknown")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, base, c.validate()
}

func (c Config) validate() error {
	switch c.Kind {
	case Auto, V1, V2, V3:
	default:
		return errors.Errorf("influx: kind %q is unknown; give auto, 1, 2 or 3", string(c.Kind))
	}
	switch c.Compression {
	case CompressAuto, CompressGzip, CompressNone:
	default:
		return errors.Errorf("influx: compression %q is unknown; give auto, gzip or none", string(c.Compression))
	}
	switch {
	case c.Bucket == "":
		return errors.New("influx: no bucket; name the remote's bucket (for InfluxDB 1.x: database, or database/retention policy)")
	case c.MaxRequestBytes < 0 || c.Parallel < 0:
		return errors.New("influx: a setting is negative")
	case strings.ContainsAny(c.Token, "\r\n") || strings.Contains(c.Username, ":"):
		return errors.New("influx: the token holds a line end, or the user name a colon")
	}
	return nil
}

// database returns the parts of a bucket of 1.x.
func (c Config) database() (db, rp string) {
	db, rp, _ = strings.Cut(c.Bucket, "/")
	return db, rp
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
