// Package fan applies mutations to a target over several transactions at once, and keeps their order
// per key.
//
//	f := fan.New(fan.Config{Session: session, Shards: 8, Budget: budget.New(10 << 20)})
//	err := f.Begin(ctx, stamp)   // a source transaction opens
//	err = f.Data(ctx, muts)      // some of its mutations, in source order
//	err = f.Commit()             // that was all of it
//	point, ok := f.Point()       // the consistent point, so far
//	err = f.Drain(ctx)           // wait until everything has landed
//	err = f.Close(ctx)
//
// # Order
//
// A mutation goes to the shard that the hash of its table and key names (or its Route). A shard
// applies its mutations in order, in batches, and has one batch in flight; the next begins when the
// one before has landed, whatever it took (ORDER). Within a batch, mutations of one key are merged
// (see [Merger]). A batch is one target transaction, on the session's epoch.
//
// OpTruncate, OpRekey and what [Config.Reaches] says of are barriers: everything before has landed when they
// are applied, and nothing after has begun. For a schema change, call [Fan.Drain] before and after it.
//
// To apply a batch again is harmless: the last mutation of each key wins again. A key change is the
// exception: if its old key has come to belong to another row meanwhile, that row would be moved; and so is a
// delete that takes other rows with it, which might take one that has come to belong to it since. So a
// barrier and how far its transaction has got are stored together ([Config.Memo]), and when the
// transaction is read again, after a crash or an Abort, what precedes the barrier and the barrier itself
// are skipped. The source must give a transaction that it gives again the same mutations in the same
// order.
//
// # Progress
//
// Mutations that have not landed are counted per source transaction (see package stamp). The
// consistent point is the newest stamp such that its transaction and all before it have landed
// (PREFIX). It only moves forward. [Config.OnPoint] is told when it does; to store it is the
// business of the owner, with [Fan.SaveMemo]. A memo whose SaveMemo failed may still be on its way: the
// session is fenced before another one is stored, and before Drain returns.
//
// # Memory
//
// A mutation holds on to bytes of a [Budget] from before it is queued until it has landed: its own
// size, and what the bookkeeping for it can take at most. Data waits for them without holding a
// lock. A mutation that is larger than the whole budget passes alone, and a transaction that is
// larger passes in parts (BOUNDED).
//
// A shard has a goroutine while it has something to do. A fan that is idle has none, and takes about
// four kilobytes with eight shards.
//
// # Failures
//
// What a batch's failure leads to depends on its class (see logical.Class):
//
//   - retry: the batch is applied again, from memory, after a delay that grows.
//   - conflict: the same, at once; after a few times with a delay.
//   - unknown commit: the session is fenced, so that the transaction has ended one way or the other
//     (FENCED); then the batch is applied again, which changes nothing if it had landed. Any
//     failure of a commit that is not known to have no effect is treated so.
//   - constraint: a neighbour in source order may sit in another shard. The batch is tried again
//     while others progress; in the end everything else is drained, and what is left is applied
//     together, in source order and unmerged, then shard by shard, then one by one. Only what
//     fails even then is rejected. (It can hit the innocent: two rows have swapped their unique
//     values by way of a third value, and a row in a shard that was ahead has taken that since. No
//     order of the mutations helps then; an operator frees the value.)
//   - reject: the batch is cut, first between source transactions, then within one, until the
//     mutation is found that the target does not accept. [Config.OnReject] decides about it.
//   - fenced: the fan fails.
//
// A fan that has failed stays so: every call returns the error, and so does [Fan.Err].
//
// # Use
//
// Begin, Data, Commit, Drain and Abort belong to one goroutine, that of the source. Close, Kick,
// Err and what reports figures may be called by anybody. [Fan.Abort] gives up what has not landed, and
// returns when none of it can reach the target any more; the fan can then be used again, from the
// consistent point. [Fan.Close] lets the batches in flight land and ends the fan.
package fan
