package server

import (
	"crypto/tls"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
)

// Config of a Server. A field that is zero has its default.
type Config struct {
	// BindAddr is where to listen: host:port. Port 0 takes a free port. Default: 127.0.0.1:8086.
	BindAddr string
	// TLS makes the server speak HTTPS; nil is HTTP.
	TLS *tls.Config
	// MaxConns is how many connections may be open. Default: 4096.
	MaxConns int
	// MaxConnsPerHost is how many of them one remote address may have; 0 means no limit of its own.
	MaxConnsPerHost int
	// MaxBodySize is the most that the body of a write may have, in bytes after decompression.
	// Default: 25 MiB.
	MaxBodySize int64
	// BodyMemory bounds the buffers of all writes that are under way, in bytes; twice MaxBodySize of it
	// (at most half) is for one of them at a time, so that they cannot all wait for each other. A request whose body
	// would need more than all of it is refused like one that is too large: points without a timestamp
	// grow when they get one, the shortest ones about fivefold. Default: 256 MiB, or ten times
	// MaxBodySize if that is more.
	BodyMemory int64
	// BodyWait is how long a request waits for memory before it is answered 503. Default: 5 s.
	BodyWait time.Duration
	// BodyTimeout is how long the body of a request may pause. Default: 30 s.
	BodyTimeout time.Duration
	// BodyMinRate is how many bytes per second a body must bring on average, once BodyTimeout has
	// passed. Default: 1024.
	BodyMinRate int64
	// ReadHeaderTimeout is how long the header of a request may take. Default: 10 s.
	ReadHeaderTimeout time.Duration
	// IdleTimeout is how long a connection is kept between two requests. Default: 3 min.
	IdleTimeout time.Duration
	// MaxHeaderBytes is the most that a request's header may have. Default: 64 KiB.
	MaxHeaderBytes int
	// IntakeTimeout is how long the Intake may take for one write. Default: 30 s.
	IntakeTimeout time.Duration
	// RetryAfter is what a client is told to wait when we have no better idea. Default: 5 s.
	RetryAfter time.Duration
	// Origin is given to points that have no tag of its key; nil means none.
	Origin *lineprotocol.AddedTag
	// Version and Commit are shown in headers and in /health. Default of Version: dev.
	Version, Commit string
}

// WithDefaults returns the configuration with every zero field replaced by its default.
func (c Config) WithDefaults() Config {
	setDefault(&c.BindAddr, "127.0.0.1:8086")
	setDefault(&c.MaxConns, 4096)
	setDefault(&c.MaxBodySize, 25<<20)
	setDefault(&c.BodyMemory, max(256<<20, 10*c.MaxBodySize))
	setDefault(&c.BodyWait, 5*time.Second)
	setDefault(&c.BodyTimeout, 30*time.Second)
	setDefault(&c.BodyMinRate, 1024)
	setDefault(&c.ReadHeaderTimeout, 10*time.Second)
	setDefault(&c.IdleTimeout, 3*time.Minute)
	setDefault(&c.MaxHeaderBytes, 64<<10)
	setDefault(&c.IntakeTimeout, 30*time.Second)
	setDefault(&c.RetryAfter, 5*time.Second)
	setDefault(&c.Version, "dev")
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports the first field that cannot work. It expects defaults to be filled in.
func (c Config) Validate() error {
	switch {
	case c.MaxConns < 0, c.MaxConnsPerHost < 0:
		return errors.New("server: limits of connections must not be negative")
	case c.MaxBodySize < 0, c.BodyMemory < 0, c.BodyMinRate < 0, c.MaxHeaderBytes < 0:
		return errors.New("server: sizes and rates must not be negative")
	case c.BodyMemory < c.MaxBodySize+minLease:
		return errors.Errorf("server: BodyMemory (%d) is too small for one body of MaxBodySize (%d)", c.BodyMemory, c.MaxBodySize)
	case c.BodyWait < 0, c.BodyTimeout < 0, c.ReadHeaderTimeout < 0, c.IdleTimeout < 0, c.IntakeTimeout < 0, c.RetryAfter < 0:
		return errors.New("server: durations must not be negative")
	}
	return nil
}
