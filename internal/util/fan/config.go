package fan

import (
	"context"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/util/retry"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Config is how a Fan behaves.
type Config struct {
	// Session is the loop's hold on its target.
	Session logical.Session
	// Shards is how many target transactions are in flight at most. Default 4.
	Shards int
	// Raw says that the target forwards Mutation.Raw: nothing is merged.
	Raw bool
	// Budget bounds the bytes in flight. Default: no bound.
	Budget Budget
	// Point is the consistent point to start from: the first transaction must be after it. It may
	// be nil.
	Point logical.Stamp
	// Skip is how many mutations of the first transaction after Point are in the target already, as
	// Memo was told when that was stored.
	Skip int
	// Memo makes the memo which says that everything up to point is in the target, and besides the
	// first skip mutations of the transaction after it. It is stored with each barrier, and by
	// SaveMemo. Without it, a crash may apply a key change again after its old key has come to
	// belong to another row; see the package documentation. It may be called concurrently.
	Memo func(point logical.Stamp, skip int) logical.MemoState
	// Reaches reports whether a mutation may change rows other than its own at the target: it is a barrier then.
	// It is asked for each mutation, and may have to ask the target. Default: none does but by its operation.
	Reaches func(ctx context.Context, m *logical.Mutation) bool
	// MaxRows and MaxBytes bound a batch; one mutation is always a batch. Default 8,192 rows, 1 MiB.
	MaxRows  int
	MaxBytes int64
	// FirstRows is how many mutations the first batches may have; it then goes by the target's speed. Default 2,048.
	FirstRows int
	// Timed makes each call of the session and of its transactions, so that its owner can bound their time, and say
	// what that bound is. It may be called concurrently. Default: no bound.
	Timed func(ctx context.Context, call func(context.Context) error) error
	// Retry is how the tries of a batch that fails are spaced. Its functions may be called
	// concurrently.
	Retry retry.Config
	// ConstraintTries is how often a batch that violates a constraint is tried while others
	// progress, before everything is drained for it. Default 4.
	ConstraintTries int
	// Now is the clock by which the speed of batches is measured. Default time.Now.
	Now func() time.Time

	// BeforeTake is for tests: a worker is about to take its shard's next batch, and does so when it returns.
	BeforeTake func(ctx context.Context, shard int)

	// OnPoint is told when the consistent point has advanced, in order, and by how many transactions.
	// It is called while the fan is locked: it must not block, and not call the fan.
	OnPoint func(point logical.Stamp, txs int)
	// OnLanded is told of each batch that has landed. It may be called concurrently.
	OnLanded func(Landed)
	// OnFailure is told of each failure, also of those that are tried again. It may be called
	// concurrently.
	OnFailure func(Failure)

	// OnFail is told once when the fan fails, since its owner may not call it for long. It is called
	// while the fan is locked: it must not block, and not call the fan.
	OnFail func(err error)

	// OnReject decides about a mutation that the target will never accept. It may be called
	// concurrently, but never for one key, and again for the same mutation if the transaction that
	// was to carry out its decision fails. Default: the fan fails.
	OnReject func(ctx context.Context, r Rejected) Decision
	// Joins knows the keys that have open dead letters, which later mutations of the key join: OnReject
	// is then asked about them right away. It is nil where there are no dead letters.
	Joins Joins
	// OnSettled is told once of each mutation about which OnReject has decided, when that has been
	// carried out: the dead letter is in the target, or the mutation is discarded, and there is no letter. Later mutations
	// of the key are looked at after it has returned.
	OnSettled func(r Rejected, v Verdict, letter *logical.DeadLetter)
}

func (c Config) withDefaults() Config {
	if c.Shards <= 0 {
		c.Shards = 4
	}
	if c.Budget == nil {
		c.Budget = unbounded{}
	}
	if c.MaxRows <= 0 {
		c.MaxRows = 8192
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = 1 << 20
	}
	if c.ConstraintTries <= 0 {
		c.ConstraintTries = 4
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.OnReject == nil {
		c.OnReject = func(context.Context, Rejected) Decision { return Decision{Verdict: Fail} }
	}
	return c
}

// Landed is what Config.OnLanded is told of one target transaction.
type Landed struct {
	// Shard is the number of the shard, or -1 for what was applied after a drain.
	Shard int
	// Mutations is how many of the source's mutations have landed; those that were set aside or discarded
	// are not among them.
	Mutations int
	// Applied is how many were left of them after merging.
	Applied int
	// Bytes is what they held of the budget.
	Bytes int64
	// Took is how long the transaction took, the try that succeeded alone.
	Took time.Duration
}

// Failure is what Config.OnFailure is told.
type Failure struct {
	// Shard is the number of the shard, or -1 for what was applied after a drain.
	Shard int
	// Class is that of Err, as the fan takes it.
	Class logical.Class
	Err   error
	// Mutations is how many are held up by it.
	Mutations int
}

// Rejected is a mutation that the target will never accept.
type Rejected struct {
	// Stamp is that of its transaction, and Position its place in that, counted from 0.
	Stamp    logical.Stamp
	Position int
	// Mutation is valid until the call returns.
	Mutation *logical.Mutation
	// Err is the target's error; for one that joins an open dead letter it is nil.
	Err error
}

// Decision is what OnReject returns.
type Decision struct {
	Verdict Verdict
	// Letter is what SetAside stores.
	Letter logical.DeadLetter
}

// A Verdict says what happens to a mutation that the target will never accept.
type Verdict uint8

// The verdicts. The zero Verdict is Fail.
const (
	// Fail: the fan fails with the target's error.
	Fail Verdict = iota
	// Again: the mutation is tried again after a delay, for as long as this is the verdict. Its shard
	// waits; others go on, as far as the budget lets them.
	Again
	// SetAside: the letter is stored, in a transaction of the target, and counts as landed.
	SetAside
	// Discard: the mutation counts as landed. To count and log it is the business of OnSettled.
	Discard
)

var verdictNames = [...]string{"fail", "again", "set aside", "discard"}

// String returns the verdict's name in lower case.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "verdict"
}
