package logical

import "context"

// Sites at which a sink takes what waits for it: what that is depends on who comes first.
const (
	signalTake = "take" // by a shard of the fan
	signalNext = "next" // by the sink of serial mode
)

// signal is for tests that decide who comes first: it returns when a sink may go on. n is the number of
// a shard.
func (l *Loop) signal(ctx context.Context, site string, n int) {
	if l.signals != nil {
		l.signals(ctx, site, n)
	}
}
