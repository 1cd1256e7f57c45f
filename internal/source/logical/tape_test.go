package logical

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// at is the stamp of the n-th transaction of a tape, counted from 1.
type at struct {
	N    int       `json:"n"`
	When time.Time `json:"when"`
}

func (s at) Time() time.Time { return s.When }

func (s at) Compare(other logical.Stamp) int { return cmp.Compare(s.N, other.(at).N) }

// tape is a source that replays transactions. It is safe for one loop at a time.
type tape struct {
	txs  [][]logical.Mutation
	when func(n int) time.Time // commit times; nil means that they are not known
	// fail is asked before each message, and before each transaction is processed.
	fail func(ctx context.Context, site string) error
	// reads is told where each read begins, and gave what the events have taken: a transaction, up to one of
	// its mutations.
	reads func(from int)
	gave  func(tx, upTo int)
	// batch is how many mutations one OnData carries.
	batch int

	acked at
	// answers is when the source begins to tell what waits.
	answers time.Time
}

func (d *tape) ZeroStamp() logical.Stamp { return at{} }

func (d *tape) DecodeStamp(stored []byte) (logical.Stamp, error) {
	var s at
	err := json.Unmarshal(stored, &s)
	return s, err
}

func (d *tape) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	if d.reads != nil {
		d.reads(from.(at).N)
	}
	for n := from.(at).N + 1; n <= len(d.txs); n++ {
		if err := d.failure(ctx, "read"); err != nil {
			return err
		}
		if d.when != nil {
			if err := sleep(ctx, time.Until(d.when(n))); err != nil {
				return err
			}
		}
		for _, p := range d.pieces(n) {
			if err := out.Send(ctx, logical.Message{Body: p, Size: 64}); err != nil {
				return err
			}
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (d *tape) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	for {
		msg, err := in.Receive(ctx)
		if err != nil {
			return err
		}
		if msg.Rollback {
			if err := events.OnRollback(ctx); err != nil {
				return err
			}
			continue
		}
		if err := d.play(ctx, msg.Body.(piece), events); err != nil {
			return err
		}
	}
}

// A piece is what one message carries of a transaction: some of its mutations, and perhaps its ends.
type piece struct {
	n             int
	from, to      int
	begin, commit bool
}

// pieces cuts a transaction into messages, so that a read may end within it. What is in one batch comes with its
// commit or, every other time, without.
func (d *tape) pieces(n int) []piece {
	size, batch := len(d.txs[n-1]), max(d.batch, 1)
	all := []piece{{n: n, to: min(batch, size), begin: true}}
	for from := batch; from < size; from += batch {
		all = append(all, piece{n: n, from: from, to: min(from+batch, size)})
	}
	if len(all) > 1 || n%2 == 0 {
		return append(all, piece{n: n, from: size, to: size, commit: true})
	}
	all[0].commit = true
	return all
}

func (d *tape) play(ctx context.Context, p piece, events logical.Events) error {
	if p.begin {
		stamp := at{N: p.n}
		if d.when != nil {
			stamp.When = d.when(p.n)
		}
		if err := d.failure(ctx, "process"); err != nil {
			return err
		}
		if err := events.OnBegin(ctx, stamp); err != nil {
			return err
		}
	}
	if muts := d.txs[p.n-1][p.from:p.to]; len(muts) > 0 {
		if err := d.failure(ctx, "process"); err != nil {
			return err
		}
		if err := events.OnData(ctx, muts); err != nil {
			return err
		}
		if d.gave != nil {
			d.gave(p.n, p.to)
		}
	}
	if !p.commit {
		return nil
	}
	if err := d.failure(ctx, "process"); err != nil {
		return err
	}
	return events.OnCommit(ctx)
}

func (d *tape) failure(ctx context.Context, site string) error {
	if d.fail == nil {
		return nil
	}
	return errors.WithMessage(d.fail(ctx, site), site) // nil stays nil
}

// Acknowledge implements logical.Acknowledger.
func (d *tape) Acknowledge(_ context.Context, stamp logical.Stamp) error {
	d.acked = stamp.(at)
	return nil
}

// OldestPending implements logical.Stalenesser.
func (d *tape) OldestPending(after logical.Stamp) (time.Time, bool) {
	if time.Now().Before(d.answers) {
		return time.Time{}, false
	}
	n := after.(at).N + 1
	if d.when == nil || n > len(d.txs) {
		return time.Time{}, d.when != nil
	}
	if d.when(n).After(time.Now()) {
		return time.Time{}, true
	}
	return d.when(n), true
}

// Newest implements logical.Stalenesser.
func (d *tape) Newest() (logical.Stamp, bool) {
	if time.Now().Before(d.answers) {
		return at{}, false
	}
	newest := at{}
	for n := 1; n <= len(d.txs); n++ {
		if d.when != nil && d.when(n).After(time.Now()) {
			break
		}
		newest.N = n
	}
	return newest, true
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// accounts is the relation that histories write to.
var accounts = &logical.Relation{Name: "accounts", Columns: []logical.Column{
	{Name: "id", Kind: logical.KindInt64, Key: true}, {Name: "v", Kind: logical.KindText},
}}

// audit is another one.
var audit = &logical.Relation{Name: "audit", Columns: []logical.Column{
	{Name: "id", Kind: logical.KindInt64, Key: true}, {Name: "v", Kind: logical.KindText},
}}

// writes makes random transactions of upserts and deletes: many small ones, empty ones, a few large ones, on few
// keys. TestModel has richer ones.
func writes(random *rand.Rand, n int) [][]logical.Mutation {
	txs := make([][]logical.Mutation, n)
	for i := range txs {
		size := random.IntN(4)
		if random.IntN(30) == 0 {
			size = 40 + random.IntN(100)
		}
		for j := range size {
			m := logical.Mutation{Op: logical.OpUpsert, Relation: accounts, Values: []logical.Value{
				logical.Int64(random.Int64N(10)), logical.Text(fmt.Sprintf("%d/%d", i+1, j)),
			}}
			if random.IntN(5) == 0 {
				m.Op = logical.OpDelete
			}
			if j > 2 && random.IntN(3) == 0 { // also in the middle of a large transaction
				m.Relation, m.Values[0] = audit, logical.Int64(100+random.Int64N(10))
			}
			txs[i] = append(txs[i], m)
		}
	}
	return txs
}
