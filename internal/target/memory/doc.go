// Package memory is a target that keeps everything in memory: for tests, and for programs that want
// to see what a loop does before they give it a database.
//
//	target := memory.Open(memory.Config{})
//	session, err := target.Take(ctx, logical.Claim{Loop: "orders", Holder: "me", TTL: 30 * time.Second})
//	…
//	rows := target.Snapshot().Tables["public.orders"].Rows
//
// # What it is faithful in
//
//   - A transaction is applied at Commit as a whole, or not at all (ATOMIC); a [Target.Snapshot] sees
//     all of it or nothing.
//   - Two transactions that touch one row wait for each other. A deadlock is found, and one of them
//     fails with logical.ClassConflict. OpTruncate waits for everyone who has touched the table.
//   - Secondary unique constraints are checked at once, as SQL does by default, and fail with
//     logical.ClassConstraint.
//   - A session writes under its loop's epoch. Fence and Take bump it and wait until transactions of
//     older epochs have ended, also those whose client is gone and whose commit is still on its way
//     (FENCED). A session that was succeeded fails with logical.ClassFenced.
//   - A lease is renewed for as long as its session lives; after [Target.Crash] it expires.
//   - A mutation whose columns nobody prepared fails; so does a field that changes its kind.
//
// Values are copied, so the target keeps nothing of what it was given.
//
// # Faults
//
// A [Hook] is asked at every call, and may let it stall, fail before it takes effect, or fail after
// it took effect; a commit may also take effect later, when its caller has long been told that its
// outcome is not known, and over newer data unless it is fenced. [Chaos] makes a hook that decides by hash(seed, loop, site, count at that
// site), so that a seed replays its faults.
//
// # Concurrency
//
// All methods of [Target] and of its sessions may be called concurrently. A transaction belongs to
// one goroutine. Everything is guarded by one mutex that is never held while something waits.
package memory
