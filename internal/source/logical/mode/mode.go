package mode

import "time"

// A Mode is how a loop applies.
type Mode uint8

// The modes.
const (
	// Serial applies source transactions one after the other (ATOMIC).
	Serial Mode = iota
	// Backfill fans out, until the loop has caught up.
	Backfill
	// Immediate fans out always, by the operator's choice.
	Immediate
)

var modeNames = [...]string{"serial", "backfill", "immediate"}

// All lists the modes, for metrics that have a series for each.
func All() []Mode { return []Mode{Serial, Backfill, Immediate} }

// String returns the mode's name, as metrics, logs and the memo show it.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "mode"
}

// Fan reports whether the mode applies in fan fashion.
func (m Mode) Fan() bool { return m != Serial }

// A Reason says why a decision is as it is, in one short and stable word: a label of a metric.
type Reason string

// The reasons. Stale, CaughtUp, Configured and Off come with switches; the others say why the mode
// stays.
const (
	Stale      Reason = "stale"      // the staleness is greater than the window
	CaughtUp   Reason = "caught_up"  // the staleness is less than half of the window
	Configured Reason = "immediate"  // the operator chose Immediate
	Off        Reason = "window_off" // the window is zero, so staleness decides nothing
	Fresh      Reason = "fresh"      // serial, and not stale
	Behind     Reason = "behind"     // backfill, and not yet caught up
	Dwell      Reason = "dwell"      // a switch would be due, but the last one is too recent
	NotKnown   Reason = "unknown"    // the staleness is not known
	Settling   Reason = "settling"   // the last switch has not been carried out yet
	Unclean    Reason = "unclean"    // the target is ahead of the consistent point in places
)

// Staleness is how long the oldest source transaction that is not yet in the target has been
// waiting. The zero Staleness is not known.
type Staleness struct {
	known bool
	by    time.Duration
}

// Unknown is the staleness while the source has not answered, or when its stamps know no time.
func Unknown() Staleness { return Staleness{} }

// By returns a staleness that is known: zero if nothing is waiting. A negative one counts as zero.
func By(d time.Duration) Staleness { return Staleness{known: true, by: max(0, d)} }

// Since returns the staleness at now of a loop whose oldest waiting transaction was committed at
// oldest; the zero time stands for none waiting.
func Since(now, oldest time.Time) Staleness {
	if oldest.IsZero() {
		return By(0)
	}
	return By(now.Sub(oldest))
}

// Known returns the staleness, or false if it is not known.
func (s Staleness) Known() (time.Duration, bool) { return s.by, s.known }

// Policy is what the operator chose; see logical.Config.
type Policy struct {
	// Window is the staleness above which the loop fans out. 0 means never by staleness.
	Window time.Duration
	// MinDwell is the least time between two switches.
	MinDwell time.Duration
	// Immediate fans out always.
	Immediate bool
}

// Next returns the mode that a loop in mode m should be in, and why. The time since the last switch
// is elapsed; give [Forever] if there was none.
func Next(m Mode, s Staleness, elapsed time.Duration, p Policy) (Mode, Reason) {
	want, why := wanted(m, s, p)
	if want != m && elapsed < p.MinDwell && (why == Stale || why == CaughtUp) {
		return m, Dwell
	}
	return want, why
}

// Forever is a time since the last switch that no dwell exceeds.
const Forever = time.Duration(1<<63 - 1)

// wanted is Next without regard to the dwell.
func wanted(m Mode, s Staleness, p Policy) (Mode, Reason) {
	switch by, known := s.Known(); {
	case p.Immediate:
		return Immediate, Configured
	case p.Window <= 0:
		return Serial, Off
	case !known && m == Immediate: // it is no longer configured
		return Backfill, Behind
	case !known:
		return m, NotKnown
	case by > p.Window:
		return Backfill, Stale
	case m == Serial:
		return Serial, Fresh
	case 2*by < p.Window:
		return Serial, CaughtUp
	}
	return Backfill, Behind
}
