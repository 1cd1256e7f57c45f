package logical

import (
	"runtime"
	"time"

	"github.com/pkg/errors"
)

// Config is how one loop behaves. The zero value of a field means its default, except where the
// field says otherwise; [Config.WithDefaults] fills them in.
type Config struct {
	// BackfillWindow is the staleness above which the loop fans out; it goes back to serial below
	// half of it. 0 means never by staleness.
	BackfillWindow time.Duration
	// MinDwell is the least time between two mode switches (CALM). Default 10 s, and at most half
	// of BackfillWindow.
	MinDwell time.Duration
	// Immediate keeps the loop in fan mode always: ORDER and PREFIX hold, ATOMIC does not.
	Immediate bool
	// FanShards is how many target transactions fan mode has in flight. It is about the target's
	// CPUs. Default max(4, 2 × local CPUs), at most what the target's traits allow.
	FanShards int
	// BytesInFlight bounds the memory of mutations that have been read and are not yet in the
	// target (BOUNDED). Default 10 MiB.
	BytesInFlight int64
	// ApplyTimeout bounds each statement at the target. Default 30 s.
	ApplyTimeout time.Duration
	// RetryDelay is the first delay after a failure; delays grow exponentially, with full jitter, up
	// to RetryMax. Default 100 ms.
	RetryDelay time.Duration
	// RetryMax is the longest delay between two tries. Default 30 s.
	RetryMax time.Duration
	// StandbyTimeout is how often, at the least, the consistent point of fan mode is stored and the
	// source is told of progress. Default 5 s.
	StandbyTimeout time.Duration
	// LeaseTTL is how long another process waits for the lease of a loop whose process vanished.
	// Default 30 s.
	LeaseTTL time.Duration
	// OnReject says what happens to a mutation that the target will never accept. Default
	// RejectStop; streams of time series set RejectDeadLetter, which needs a target that keeps [DeadLetters].
	OnReject RejectPolicy
	// MaxDeadLetterBytes bounds the dead letters of the loop; beyond it the loop stops as rejecting.
	// Default 64 MiB.
	MaxDeadLetterBytes int64
}

// RejectPolicy says what happens to a mutation that the target will never accept.
type RejectPolicy string

// The policies.
const (
	// RejectStop: the loop stops applying, keeps trying, and says why. Nothing is skipped.
	RejectStop RejectPolicy = "stop"
	// RejectDeadLetter: the mutation is kept as a dead letter and the loop goes on.
	RejectDeadLetter RejectPolicy = "deadLetter"
	// RejectDiscard: the mutation is counted and logged as lost, and the loop goes on.
	RejectDiscard RejectPolicy = "discard"
)

// WithDefaults returns a copy in which every field that is zero has its default.
func (c Config) WithDefaults() Config {
	setDefault(&c.FanShards, max(4, 2*runtime.NumCPU()))
	setDefault(&c.BytesInFlight, 10<<20)
	setDefault(&c.ApplyTimeout, 30*time.Second)
	setDefault(&c.RetryDelay, 100*time.Millisecond)
	setDefault(&c.RetryMax, 30*time.Second)
	setDefault(&c.StandbyTimeout, 5*time.Second)
	setDefault(&c.LeaseTTL, 30*time.Second)
	setDefault(&c.OnReject, RejectStop)
	setDefault(&c.MaxDeadLetterBytes, 64<<20)
	if c.MinDwell == 0 {
		c.MinDwell = 10 * time.Second
		if half := c.BackfillWindow / 2; half > 0 && half < c.MinDwell {
			c.MinDwell = half
		}
	}
	return c
}

// Validate reports the first setting that cannot work, by the name of its flag.
func (c Config) Validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"backfillWindow", c.BackfillWindow},
		{"applyTimeout", c.ApplyTimeout},
		{"retryDelay", c.RetryDelay},
		{"standbyTimeout", c.StandbyTimeout},
		{"minDwell", c.MinDwell},
		{"retryMax", c.RetryMax},
		{"leaseTTL", c.LeaseTTL},
	} {
		if d.value < 0 {
			return errors.Errorf("%s: %s is negative; give a duration such as 30s", d.name, d.value)
		}
	}
	if c.FanShards < 0 {
		return errors.Errorf("fanShards: %d is negative; give the number of transactions in flight", c.FanShards)
	}
	if c.BytesInFlight < 0 || c.BytesInFlight > 0 && c.BytesInFlight < MinBytesInFlight {
		return errors.Errorf("bytesInFlight: %d is too small; give at least %d", c.BytesInFlight, MinBytesInFlight)
	}
	if c.MaxDeadLetterBytes < 0 {
		return errors.Errorf("maxDeadLetterBytes: %d is negative", c.MaxDeadLetterBytes)
	}
	switch c.OnReject {
	case "", RejectStop, RejectDeadLetter, RejectDiscard:
	default:
		return errors.Errorf("onReject: %q is unknown; give stop, deadLetter or discard", string(c.OnReject))
	}
	return nil
}

// MinBytesInFlight is the smallest BytesInFlight that is accepted: below it a loop spends its time
// on waiting for single messages.
const MinBytesInFlight = 64 << 10

// DefaultTotalBytesInFlight is what all loops of a process have in flight together, unless they are given
// another bound: 256 MiB.
const DefaultTotalBytesInFlight = 256 << 20

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
