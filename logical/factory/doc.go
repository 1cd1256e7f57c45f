// Package factory runs replication loops in your own program.
//
// A loop moves the changes of one source into one target. What is specific to the source is a
// [logical.Dialect], which you write; package logical is its manual. What takes the changes is a
// [logical.Target], which you open: see the packages below logical/target. All the rest is done by the
// loop: it remembers how far it has come, in the target and together with the data; it goes on from there
// after a crash; it tries again what may heal, sets aside what never will, and fans out while it is stale.
//
//	target, err := sqlite.Open(ctx, sqlite.Config{Path: "orders.db"})
//	f, err := factory.New(factory.Config{Holder: "importer-1", Target: target})
//	loop, err := f.Get(ctx, factory.Spec{Name: "orders", Dialect: dialect})
//	…
//	err = loop.Wait(ctx, func(s factory.Status) bool { return s.CaughtUp() })
//	…
//	f.Close(ctx) // what is in flight lands
//	target.Close()
//
// # One loop per name
//
// A [Factory] knows its loops by their names. [Factory.Get] returns the one that runs, or makes it, once,
// however many goroutines ask at the same time; sources whose parts are found at run time (a table, a
// file, a collection) get and remove loops while others run. Loops are cheap: one that waits for its source
// takes three goroutines and some 30 KiB, and a thousand of them share the target's connections.
//
// # Memory
//
// A loop holds at most logical.Config.BytesInFlight of changes that are on their way, and all loops of a
// factory together [Config.BytesInFlight]. Each has a part of that to itself, so that one whose target is
// away slows no other (ISOLATED, BOUNDED).
//
// # What the target rejects
//
// By default a loop stops at a change that its target will never accept, in state [Rejecting], until somebody mends
// the one or the other. With logical.RejectDeadLetter it keeps the change as a dead letter and goes on; later changes
// of the same row of a database join it, so that they are never applied before it. The target lists letters
// ([logical.DeadLetters]); [Loop.Replay] applies them when their cause is mended, and [Loop.Discard] forgets them.
//
// # More than one process
//
// A target that is a database lets one process at a time run a loop: the one that holds its lease. A second process that gets
// the same loop waits until the first has ended, or has been silent for logical.Config.LeaseTTL. Processes
// are told from each other by [Config.Holder].
//
// # What it does not do
//
// Nothing is global: a program may have several factories, metrics are registered with the registry that
// you pass in, and logs go to the logger that you pass in. No target's driver is linked that you do not
// import.
package factory
