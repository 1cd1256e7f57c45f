// Package logical runs loops: it drives a dialect of package [github.com/tailrace-cdc/tailrace/logical]
// into a target, and is the only place that knows how.
//
//	factory, err := logical.NewFactory(logical.FactoryConfig{Holder: installation})
//	loop, err := factory.Get(ctx, logical.Spec{Name: "orders", Dialect: d, Target: t, Config: c})
//	…
//	factory.Close(ctx) // drains all loops
//
// # One run
//
// A run takes the loop over at its target (lease and epoch), recalls the consistent point from the memo,
// and then four goroutines work side by side: one reads the source into a pipe that is bounded in bytes,
// one has the dialect decode what is in the pipe, one steers the mode while the source is silent, and one
// tells the source of progress. Whatever fails in a way that cannot be mended from memory ends the run,
// and after a delay the next one begins from the stored point: there is no other way to recover, so the
// one there is, is the one that every start takes.
//
// # Sinks
//
// The dialect's events go to the sink of the mode in force. The sink of serial mode applies transactions
// in order; those that wait while it is busy share the next target transaction. The sink of fan mode is
// package internal/util/fan, and a goroutine that stores the consistent point. The mode changes between
// two transactions, after a drain (DRAIN).
//
// A fan that was cut short may leave its target ahead of the consistent point in places. The memo says
// that a fan was at work, and the next run stays in fan mode until it has passed everything that was
// committed at the source before that run began; only then is serial mode atomic again.
package logical
