// Package chaos lets things go wrong on purpose, around a loop and never inside it.
//
//	c := chaos.New(chaos.Config{Prob: 0.05, Seed: 7})
//	dialect = c.Dialect("orders", dialect) // the source, and the events that it tells
//	target = c.Target("orders", target)    // sessions and transactions
//
// A call is struck before it takes effect, or after it did, or it stalls; a source fails many times in a row; a
// commit's answer is lost, whether it was carried out, was not, or is carried out only later; a lease
// is lost. What happens is what a network, a server or a second process can do to a loop, so that a loop must
// keep all its promises under it.
//
// # Replay
//
// Whether the n-th call of a loop at a site is struck, and how, depends on hash(seed, loop, site, n) and
// nothing else. A run in which calls come in the same order replays exactly; where they race, each site
// still gets the same faults in the same order.
//
// # Capabilities
//
// A wrapped dialect has the methods of logical.Dialect and of logical.Acknowledger; what else the one inside
// can do is found with Unwrap. The same goes for a target.
//
// # Concurrency
//
// All methods may be called concurrently as far as those of what is wrapped may. Commits that come late
// are carried out by goroutines that end within Config.Stall; Release of their session waits for them.
package chaos
