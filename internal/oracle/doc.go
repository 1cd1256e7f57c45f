// Package oracle judges what a target was given by what a source said. It is for tests.
//
//	judge := oracle.New(source)           // all transactions of the source, in order
//	err := judge.Fanned(changes)          // a target transaction in fan mode
//	err = judge.SetAside(places)          // what that sets aside
//	err = judge.Serial(changes, places, to) // one in serial mode, with what it sets aside and the consistent point
//	err = judge.Stored(point, skip)       // a consistent point was stored
//	err = judge.Restarted(point, skip)    // the source is read again from there
//	err = judge.Snapshot(rows, point)     // what a reader sees in serial mode
//	err = judge.Converged(rows)           // the source has been read to its end
//
// It imports nothing of what it judges, applies one change at a time to a map of maps, and knows
// of no batches, shards, merging or retries. Each error begins with the name of the promise that is broken: ORDER, PREFIX,
// ATOMIC, CONVERGE or DRAIN.
//
// Every change of the source has a number, which stays with it on its way, so that the judge can tell how far
// one reaches that several were merged into.
package oracle
