package logical

import (
	"cmp"
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// pos is a position of a snapshotted source: in the history, or in a snapshot of it, which is before the
// position in the history that the snapshot shows.
type pos struct {
	N     int `json:"n"`     // the transaction in the history, counted from 1
	Of    int `json:"of"`    // while the snapshot is read: the transaction that it shows
	Chunk int `json:"chunk"` // and how much of it
}

func (p pos) Compare(other logical.Stamp) int {
	o := other.(pos)
	return cmp.Or(cmp.Compare(p.N, o.N), cmp.Compare(p.Chunk, o.Chunk))
}

// Offset implements logical.OffsetStamp.
func (p pos) Offset() uint64 { return uint64(p.N) }

// snapshotted is a source that can be read from its beginning in no way but by a snapshot: its history
// starts at the transaction that was the newest when the loop began.
type snapshotted struct {
	t    *testing.T
	txs  [][]logical.Mutation
	from int // the newest transaction at the beginning
	fail func() error
	// hurry leaves out the time between two chunks.
	hurry bool

	mu     sync.Mutex
	chunks map[int]int // how often each was sent
	reads  []int       // where ReadInto began
	ended  bool        // a backfill has come to its end
}

func (d *snapshotted) ZeroStamp() logical.Stamp { return pos{} }

func (d *snapshotted) DecodeStamp(stored []byte) (logical.Stamp, error) {
	var p pos
	err := json.Unmarshal(stored, &p)
	return p, err
}

// rows is the state after the transaction from, in an order that is always the same.
func (d *snapshotted) rows() []logical.Mutation {
	rows := map[string]logical.Mutation{}
	for _, tx := range d.txs[:d.from] {
		for _, m := range tx {
			key := m.Relation.Name + m.Values[0].String()
			if m.Op == logical.OpDelete {
				delete(rows, key)
			} else {
				rows[key] = m
			}
		}
	}
	var list []logical.Mutation
	for _, key := range slices.Sorted(func(yield func(string) bool) {
		for k := range rows {
			if !yield(k) {
				return
			}
		}
	}) {
		list = append(list, rows[key])
	}
	return list
}

const chunkRows = 2

// BackfillInto implements logical.Backfiller.
func (d *snapshotted) BackfillInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	at := from.(pos)
	if at.N > 0 {
		return nil // the snapshot has been read
	}
	rows := d.rows()
	for chunk := at.Chunk; ; chunk++ {
		if err := d.fail(); err != nil {
			return err
		}
		d.mu.Lock()
		d.chunks[chunk]++
		d.mu.Unlock()
		end := (chunk + 1) * chunkRows
		last := end >= len(rows)
		stamp := pos{Of: d.from, Chunk: chunk + 1}
		if last {
			stamp = pos{N: d.from}
		}
		part := rows[min(chunk*chunkRows, len(rows)):min(end, len(rows))]
		if err := out.Send(ctx, logical.Message{Body: message{stamp, part}, Size: 64}); err != nil {
			return err
		}
		if last {
			d.mu.Lock()
			d.ended = true
			d.mu.Unlock()
			return nil
		}
		if d.hurry {
			continue
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

type message struct {
	stamp pos
	muts  []logical.Mutation
}

// ReadInto implements logical.Dialect.
func (d *snapshotted) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	at := from.(pos)
	d.mu.Lock()
	d.reads = append(d.reads, at.N)
	if at.N < d.from || at.N == 0 {
		d.t.Errorf("the history was read from %+v, it begins after %d", at, d.from)
	}
	d.mu.Unlock()
	for n := at.N + 1; n <= len(d.txs); n++ {
		if err := d.fail(); err != nil {
			return err
		}
		if err := out.Send(ctx, logical.Message{Body: message{pos{N: n}, d.txs[n-1]}, Size: 64}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// Process implements logical.Dialect.
func (d *snapshotted) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	for {
		msg, err := in.Receive(ctx)
		if err != nil {
			return err
		}
		if msg.Rollback {
			err = events.OnRollback(ctx)
		} else {
			m := msg.Body.(message)
			if err = events.OnBegin(ctx, m.stamp); err == nil {
				if err = events.OnData(ctx, m.muts); err == nil {
					err = events.OnCommit(ctx)
				}
			}
		}
		if err != nil {
			return err
		}
	}
}

// TestPromisesOfABackfill has a loop read a snapshot and then the history, with faults and crashes in the
// middle: the history is followed from the snapshot's end, nothing is applied serially before, and the
// target ends up as the source.
func TestPromisesOfABackfill(t *testing.T) {
	t.Parallel()
	crashed := 0
	seeds(t, 150, 20_000, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { crashed += backfill(t, seed) })
	})
	if crashed == 0 && *seedFlag == 0 {
		t.Error("no run was ever ended in the middle of its backfill")
	}
}

func backfill(t *testing.T, seed uint64) (crashed int) {
	random := rand.New(rand.NewPCG(seed, 1))
	source := &snapshotted{t: t, txs: writes(random, 100), chunks: map[int]int{}}
	source.from = 1 + random.IntN(len(source.txs))
	faults := []int{0, 0, 20}[random.IntN(3)] // in a hundred
	reading := rand.New(rand.NewPCG(seed, 2))
	source.fail = func() error {
		if reading.IntN(100) < faults {
			return errors.New("injected")
		}
		return nil
	}
	var hook memory.Hook
	if faults > 0 {
		hook = memory.Chaos(seed, float64(faults)/100, 10*time.Second)
	}
	target := memory.Open(memory.Config{Hook: hook, Observe: func(c memory.Commit) {
		source.mu.Lock()
		defer source.mu.Unlock()
		if c.Memo == nil {
			return
		}
		var p pos
		if err := json.Unmarshal(c.Memo.Point, &p); err != nil {
			t.Error(err)
		}
		if p.N < source.from && (c.Memo.Mode == "serial" || !c.Memo.ConsistentSince.IsZero()) {
			t.Errorf("ATOMIC: at %+v, in the middle of the backfill, the memo says %s, consistent since %v", p, c.Memo.Mode, c.Memo.ConsistentSince)
		}
	}})
	config := logical.Config{RetryDelay: 10 * time.Millisecond, BackfillWindow: []time.Duration{0, time.Minute}[random.IntN(2)], StandbyTimeout: time.Second}
	restarts := random.IntN(4)
	for ; restarts >= 0; restarts-- {
		factory := quietFactory(t, FactoryConfig{Target: target})
		loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: source, Config: config})
		if err != nil {
			t.Fatal(err)
		}
		wait := 24 * time.Hour
		if restarts > 0 {
			wait = time.Duration(random.Int64N(int64(20 * time.Second)))
		}
		until(loop, wait, func(s Status) bool {
			p, ok := s.Point.(pos)
			return ok && p.N == len(source.txs) && s.Mode == 0
		})
		source.mu.Lock()
		if !source.ended {
			crashed++
		}
		source.mu.Unlock()
		if st := loop.Status(); restarts == 0 && (st.Point.(pos).N != len(source.txs) || st.Mode.Fan() || !st.OffsetKnown || st.Offset != uint64(len(source.txs))) {
			t.Errorf("CONVERGE: the loop ends at %+v", st)
		}
		grace, cancel := context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(time.Second))))
		factory.Close(grace)
		cancel()
	}
	if err := target.Close(); err != nil {
		t.Error(err)
	}
	synctest.Wait()
	source.judge(target, faults == 0 && crashed == 0)
	return crashed
}

// judge compares the target with the source, row by row, and what was read with what had to be.
func (d *snapshotted) judge(target *memory.Target, undisturbed bool) {
	want := snapshotted{txs: d.txs, from: len(d.txs)}
	rows := map[string]string{}
	for _, m := range want.rows() {
		rows[string(m.AppendKey(nil))] = m.Values[1].Text()
	}
	n := 0
	for _, table := range target.Snapshot().Tables {
		for key, row := range table.Rows {
			n++
			if rows[key] != row[1].Text() {
				d.t.Errorf("CONVERGE: a row is %s in the target and %s at the source", row[1].Text(), rows[key])
			}
		}
	}
	if n != len(rows) {
		d.t.Errorf("CONVERGE: the target has %d rows, the source %d", n, len(rows))
	}
	if !undisturbed {
		return
	}
	if len(d.reads) == 0 || d.reads[0] != d.from {
		d.t.Errorf("the history was read from %v, the snapshot shows %d", d.reads, d.from)
	}
	for chunk, times := range d.chunks {
		if times != 1 {
			d.t.Errorf("chunk %d of the snapshot was read %d times", chunk, times)
		}
	}
}

// TestBackfillThatEndsWithinATransactionIsAnError looks at a dialect that is wrong.
func TestBackfillThatEndsWithinATransactionIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &snapshotted{t: t, txs: writes(rand.New(rand.NewPCG(1, 1)), 10), from: 5, chunks: map[int]int{}, fail: func() error { return nil }}
		factory := quietFactory(t, FactoryConfig{Target: memory.Open(memory.Config{})})
		loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: neverCommits{source}})
		if err != nil {
			t.Fatal(err)
		}
		until(loop, time.Minute, func(s Status) bool { return s.SourceErr != nil })
		if loop.Status().SourceErr == nil || len(source.reads) > 0 {
			t.Errorf("got %+v, and the history was read from %v", loop.Status(), source.reads)
		}
	})
}

type neverCommits struct{ *snapshotted }

func (d neverCommits) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	return d.snapshotted.Process(ctx, in, openEnded{events})
}

type openEnded struct{ logical.Events }

func (openEnded) OnCommit(context.Context) error { return nil }
