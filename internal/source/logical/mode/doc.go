// Package mode decides whether a loop applies serially or fans out.
//
// The decision is a pure function, [Next], of the mode in force, the staleness, the time since the
// last switch, and the operator's [Policy]. A [Controller] remembers what Next needs to know between
// two calls. Neither has a clock of its own, starts a goroutine or takes a lock.
//
//	c := mode.NewController(policy)
//	d := c.Observe(now, staleness)     // now and then, and when a transaction has landed
//	if d.Switched {
//		// drain what is in flight (DRAIN), go on in d.Mode, and then
//		c.Settled(now)
//	}
//
// # The rules (CALM)
//
//   - Serial mode gives way to backfill when the staleness is greater than the window.
//   - Backfill gives way to serial mode when the staleness is less than half of the window.
//   - Between two switches lies at least the minimum dwell, counted from when the one before had
//     been carried out. The first known staleness is excepted: it decides what the loop starts with.
//   - A staleness that is not known changes nothing: the source has not answered, or its stamps know
//     no time. A loop starts in serial mode and stays there until it is known.
//   - A negative staleness, of a source whose clock is ahead, is no staleness.
//   - A window of zero means never by staleness. Immediate means backfill's way of applying, always.
//
// # How often it can switch
//
// Staleness that comes of falling behind grows by at most one second per second, so it takes at
// least half a window to get from where backfill ends to where it begins. Within an hour there are
// at most 1 + 2 × (2 hours / window) switches: 25 with a window of ten minutes. A feed that straddles
// the window without coming down to half of it makes one switch. Only a clock that jumps can do
// more, and then the dwell bounds it: 1 + 1 hour / MinDwell.
//
// # When serial mode is not enough
//
// A loop whose source is faster than serial mode goes round: it catches up in backfill, falls behind
// in serial mode, and so on. After three such cycles within an hour, [Decision.SerialTooSlow] says
// so, for as long as it is true; [Decision.Warn] is set once each time it becomes true.
package mode
