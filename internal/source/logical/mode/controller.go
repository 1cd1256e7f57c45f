package mode

import (
	"sync/atomic"
	"time"
)

// A cycle is one entry into backfill after serial mode had been in force. cycles of them within
// cyclesWithin mean that serial mode cannot keep up.
const (
	cycles       = 3
	cyclesWithin = time.Hour
)

// A Controller follows one loop. It is not safe for concurrent use, SetPolicy aside.
type Controller struct {
	policy   atomic.Pointer[Policy]
	mode     Mode
	decided  bool      // a known staleness, or the policy, has chosen the mode
	settling bool      // a switch was ordered and has not been carried out
	switched time.Time // when the last switch was carried out; zero if there was none
	unclean  bool      // only a fan may go on from here
	entries  [cycles]time.Time
	tooSlow  bool
}

// A Decision is what a Controller says to one observation.
type Decision struct {
	// Mode is the mode that should be in force.
	Mode Mode
	// Reason says why.
	Reason Reason
	// Switched says that Mode is not what it was at the observation before.
	Switched bool
	// SerialTooSlow says that serial mode cannot keep up with the source: three cycles within an
	// hour.
	SerialTooSlow bool
	// Warn is set when SerialTooSlow has just become true: the moment for a log line.
	Warn bool
}

// NewController returns the controller of a loop that starts now. Its mode is Serial, or Immediate
// if the policy says so.
func NewController(p Policy) *Controller {
	c := &Controller{}
	c.policy.Store(&p)
	if p.Immediate {
		c.mode, c.decided = Immediate, true
	}
	return c
}

// SetPolicy changes what the operator chose; the next observation goes by it. It may be called by anybody.
func (c *Controller) SetPolicy(p Policy) { c.policy.Store(&p) }

// Mode returns the mode of the last decision.
func (c *Controller) Mode() Mode { return c.mode }

// SetUnclean says whether the target may hold, in places, what lies after the consistent point: what a
// fan leaves that was cut short. Serial mode cannot go on from there, since readers would see states that
// the source never had (ATOMIC), so the mode is then Backfill, if it was Serial, and stays. Observe
// follows its rules again when the target is clean.
func (c *Controller) SetUnclean(unclean bool) {
	c.unclean = unclean
	if unclean && c.mode == Serial {
		c.mode = Backfill
	}
}

// Observe takes the staleness at now, and returns what should be done. When it orders a switch, it
// orders nothing else until Settled has been called.
func (c *Controller) Observe(now time.Time, s Staleness) Decision {
	if c.settling {
		return c.decision(now, Settling, false)
	}
	if c.unclean {
		return c.decision(now, Unclean, false)
	}
	want, why := Next(c.mode, s, c.elapsed(now), *c.policy.Load())
	_, known := s.Known()
	first := !c.decided
	c.decided = c.decided || known
	if want == c.mode {
		return c.decision(now, why, false)
	}
	if why == Stale && !first {
		copy(c.entries[1:], c.entries[:cycles-1])
		c.entries[0] = now
	}
	c.mode, c.settling = want, true
	return c.decision(now, why, true)
}

// Begin says that a run begins: a switch that was ordered and not carried out is carried out with it. It
// does not count as a switch, so that the first known staleness decides at once what the loop starts with.
func (c *Controller) Begin() { c.settling = false }

// Settled says that the switch which Observe ordered has been carried out at now.
func (c *Controller) Settled(now time.Time) {
	c.settling = false
	c.switched = now
}

// elapsed returns the time since the last switch. A clock that was put back starts it anew.
func (c *Controller) elapsed(now time.Time) time.Duration {
	if c.switched.IsZero() {
		return Forever
	}
	if now.Before(c.switched) {
		c.switched = now
	}
	return now.Sub(c.switched)
}

func (c *Controller) decision(now time.Time, why Reason, switched bool) Decision {
	oldest := c.entries[cycles-1]
	before := c.tooSlow
	c.tooSlow = !oldest.IsZero() && now.Sub(oldest) <= cyclesWithin && now.Sub(oldest) >= 0
	return Decision{
		Mode: c.mode, Reason: why, Switched: switched,
		SerialTooSlow: c.tooSlow, Warn: c.tooSlow && !before,
	}
}
