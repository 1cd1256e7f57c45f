package start

import (
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Config is what the flags of the server say.
type Config struct {
	// BindAddr is where to listen; port 0 picks a free one.
	BindAddr string
	// DataDir is the installation's directory.
	DataDir string
	// MaxBodySize bounds a request's body, after decompression.
	MaxBodySize flags.Size
	// BytesInFlight, ApplyTimeout, RetryDelay and StandbyTimeout are the loops' settings; see
	// logical.Config.
	BytesInFlight  flags.Size
	ApplyTimeout   time.Duration
	RetryDelay     time.Duration
	StandbyTimeout time.Duration
	// GracePeriod bounds how long a shutdown waits for what is in flight.
	GracePeriod time.Duration
	// LogFormat is text or json.
	LogFormat string
	// Verbose logs details.
	Verbose bool
	// Version is what the server says it is.
	Version string
}

// DefaultConfig returns the configuration without any flag.
func DefaultConfig() Config {
	var c Config
	c.bind(pflag.NewFlagSet("", pflag.ContinueOnError))
	return c
}

// bind defines the flags, with their defaults.
func (c *Config) bind(set *pflag.FlagSet) {
	loop := logical.Config{}.WithDefaults()
	c.MaxBodySize, c.BytesInFlight = 25<<20, flags.Size(loop.BytesInFlight)
	set.StringVar(&c.BindAddr, "bindAddr", "127.0.0.1:8086", "listen here; port 0 picks a free port")
	set.StringVar(&c.DataDir, "dataDir", "./tailrace-data", "queues, token and embedded target live here")
	set.Var(&c.MaxBodySize, "maxBodySize", "the largest body of a write, after decompression")
	set.Var(&c.BytesInFlight, "bytesInFlight", "the most data that a loop holds between queue and target")
	set.DurationVar(&c.ApplyTimeout, "applyTimeout", loop.ApplyTimeout, "the longest that a statement at the target may take")
	set.DurationVar(&c.RetryDelay, "retryDelay", loop.RetryDelay, "the first delay after a failure; grows exponentially, with jitter, up to 30s")
	set.DurationVar(&c.StandbyTimeout, "standbyTimeout", loop.StandbyTimeout, "how often progress is stored and told to the source, at the least")
	set.DurationVar(&c.GracePeriod, "gracePeriod", 10*time.Second, "how long a shutdown waits for what is in flight")
	set.StringVar(&c.LogFormat, "logFormat", "text", "text or json")
	set.BoolVarP(&c.Verbose, "verbose", "v", false, "log details")
}

// Loop returns the settings of loops.
func (c Config) Loop() logical.Config {
	return logical.Config{
		BytesInFlight:  int64(c.BytesInFlight),
		ApplyTimeout:   c.ApplyTimeout,
		RetryDelay:     c.RetryDelay,
		StandbyTimeout: c.StandbyTimeout,
		OnReject:       logical.RejectDeadLetter,
	}
}

// Validate reports the first flag that cannot work.
func (c Config) Validate() error {
	switch {
	case c.LogFormat != "text" && c.LogFormat != "json":
		return errors.Errorf("--logFormat: %q is unknown; give text or json", c.LogFormat)
	case c.MaxBodySize < 1<<10:
		return errors.Errorf("--maxBodySize: %d bytes is too small; give at least 1KiB", int64(c.MaxBodySize))
	case c.GracePeriod < 0:
		return errors.Errorf("--gracePeriod: %s is negative", c.GracePeriod)
	case c.ApplyTimeout <= 0, c.RetryDelay <= 0, c.StandbyTimeout <= 0:
		return errors.New("--applyTimeout, --retryDelay and --standbyTimeout must be more than 0s")
	case c.DataDir == "":
		return errors.New("--dataDir: name a directory")
	}
	if err := c.Loop().Validate(); err != nil {
		return errors.WithMessage(err, "flag")
	}
	return nil
}
