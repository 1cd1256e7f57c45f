// Package stamp finds the consistent point of a loop that applies out of order.
//
// A [Queue] holds the source transactions that are under way, in source order. Whoever hands out
// their mutations counts them in, whoever lands them at the target counts them out, in any order:
//
//	var q stamp.Queue
//	id, err := q.Begin(stamp)   // the transaction opens
//	q.Add(n)                    // n more of its mutations have been handed out
//	q.End()                     // that was all of it
//	q.Done(id, n)               // n of its mutations are in the target
//	point, ok := q.Point()      // the consistent point
//
// The consistent point is the newest stamp such that its transaction and all before it have ended
// and have nothing outstanding (PREFIX). A transaction without mutations advances it too.
//
// # Cost
//
// Every call takes constant time, and none allocates once the queue has been as long as it gets.
//
// Transactions that have finished behind one that has not are of interest only for the newest
// stamp of their run, so a run of them takes one entry, however long it is. A transaction that is
// stuck at the head therefore does not let the queue grow: it holds at most twice as many entries
// as there are unfinished transactions, and each of those but the open one has mutations in flight
// that are bounded elsewhere (BOUNDED). [Queue.Size] says how many bytes that is, and [EntrySize]
// what to set aside for each transaction beforehand.
//
// # Use
//
// A Queue is a pure state machine: it has no clock, starts no goroutine and takes no lock. Its owner
// serialises the calls. Calls that no correct owner makes (counting out what was not counted in,
// ending what is not open) panic; what a faulty source can bring about (a stamp that is not after
// the one before) is an error.
package stamp
