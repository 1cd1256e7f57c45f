// Package budget bounds the bytes that are in flight (BOUNDED), in one place for all who hold them.
//
//	pool := budget.NewPool(256 << 20)      // what all loops of a process have together
//	share := pool.Join(10<<20, 48<<10)     // one loop: at most 10 MiB, and 48 KiB whatever the others do
//	err := share.Acquire(ctx, n)
//	…
//	share.Release(n)
//	share.Leave()
//
// # Who gets what
//
// A request of a [Budget] passes in one of three ways:
//
//   - the budget holds nothing: it passes, however large it is. A mutation that is larger than everything
//     arrives all the same, alone;
//   - what the budget then holds is within its guarantee;
//   - what it then holds is within its size, and it leaves as many times as much to be lent as it has
//     borrowed of the pool as there are budgets, but at most eight times as much.
//
// So whoever gives back what it holds gets what it asks for, and nobody ever waits for another one's
// release alone: a loop whose target is dead keeps what it has borrowed, and stops no other (ISOLATED).
// And because nobody borrows more than a small part of what is left, those that are stuck leave something
// for the next.
//
// # What that adds up to
//
// Half of the pool is lent, the other half is for the guarantees. What is held in all is at most the
// pool's size, or half of it and all guarantees if that is more. Beyond it come only single requests that
// are larger than their budget's guarantee and passed alone.
//
// # Concurrency
//
// All methods may be called concurrently. No caller may hold a lock that a release needs.
package budget
