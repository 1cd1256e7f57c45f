package logical

import (
	"context"
	"encoding/json"
	stderrors "errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/source/logical/chaos"
	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// replayable is a tape whose dead letters can be replayed.
type replayable struct {
	*tape
	points bool
}

// weather is a measurement.
var weather = &logical.Relation{Name: "weather", Points: true, Columns: accounts.Columns}

func newReplayable(points bool, texts ...string) *replayable {
	d := &replayable{tape: &tape{}, points: points}
	for _, text := range texts {
		d.txs = append(d.txs, d.tx(text))
	}
	return d
}

// tx makes a transaction of mutations like "1 good" or "truncate".
func (d *replayable) tx(text string) (tx []logical.Mutation) {
	rel := accounts
	if d.points {
		rel = weather
	}
	for one := range strings.SplitSeq(text, ", ") {
		if one == "truncate" {
			tx = append(tx, logical.Mutation{Op: logical.OpTruncate, Relation: rel})
			continue
		}
		var id int64
		var v string
		if _, err := fmt.Sscanf(one, "%d %s", &id, &v); err != nil {
			panic(err)
		}
		tx = append(tx, logical.Mutation{Op: logical.OpUpsert, Relation: rel, Values: []logical.Value{logical.Int64(id), logical.Text(v)}})
	}
	return tx
}

// Replay implements logical.Replayer.
func (d *replayable) Replay(letter logical.DeadLetter) (logical.Mutation, error) {
	if letter.Op == logical.OpTruncate {
		return d.tx("truncate")[0], nil
	}
	var values struct{ ID, V string }
	if err := json.Unmarshal(letter.Payload, &values); err != nil {
		return logical.Mutation{}, err
	}
	if values.V == "unreadable" {
		return logical.Mutation{}, errors.New("it cannot be read")
	}
	m := d.tx(values.ID + " " + values.V)[0]
	if d.points {
		m.Op = logical.OpFill
	}
	return m, nil
}

// A sickness is a target that rejects some values until it is mended.
type sickness struct{ mended atomic.Bool }

func (s *sickness) reject(m *logical.Mutation) error {
	switch {
	case s.mended.Load() || m.Values == nil:
	case strings.HasPrefix(m.Values[1].Text(), "bad"):
		return errors.New("sick")
	}
	if m.Values != nil && m.Values[1].Text() == "worse" {
		return errors.New("sick for ever")
	}
	return nil
}

// A ward is a loop with a target that may be sick.
type ward struct {
	t       *testing.T
	source  *replayable
	target  *memory.Target
	sick    *sickness
	config  logical.Config
	chaos   *chaos.Chaos
	factory *Factory
	loop    *Loop
}

func newWard(t *testing.T, source *replayable, config logical.Config, observe func(memory.Commit)) *ward {
	config.OnReject = logical.RejectDeadLetter
	// A fan that had several transactions of a row at once would merge them, and what is rejected would vanish.
	begun := time.Now()
	source.when = func(n int) time.Time { return begun.Add(time.Duration(n) * time.Second) }
	w := &ward{t: t, source: source, sick: &sickness{}, config: config}
	w.target = memory.Open(memory.Config{Reject: w.sick.reject, Observe: observe})
	return w
}

// run starts the loop, and waits until it is at its source's end.
func (w *ward) run() {
	w.t.Helper()
	w.factory = quietFactory(w.t, FactoryConfig{Target: w.target, Chaos: w.chaos})
	var err error
	if w.loop, err = w.factory.Get(w.t.Context(), Spec{Name: "loop", Dialect: w.source, Config: w.config}); err != nil {
		w.t.Fatal(err)
	}
	w.await()
}

func (w *ward) await() {
	w.t.Helper()
	until(w.loop, 24*time.Hour, func(s Status) bool { return s.Point != nil && s.Point.(at).N == len(w.source.txs) })
	if s := w.loop.Status(); s.Point.(at).N != len(w.source.txs) {
		w.t.Fatalf("the loop stands at %+v", s)
	}
}

func (w *ward) close() { w.factory.Close(context.Background()) }

// again stops the loop, gives its source more transactions, and starts it from stored state.
func (w *ward) again(texts ...string) {
	w.t.Helper()
	w.close()
	for _, text := range texts {
		w.source.txs = append(w.source.txs, w.source.tx(text))
	}
	w.run()
}

// rows returns what the target holds.
func (w *ward) rows() string {
	var rows []string
	for _, table := range w.target.Snapshot().Tables {
		for _, row := range table.Rows {
			rows = append(rows, fmt.Sprint(row[0].Int64(), " ", row[1].Text()))
		}
	}
	slices.Sort(rows)
	return strings.Join(rows, ", ")
}

func (w *ward) letters() (list []logical.DeadLetter, ids []int64) {
	w.t.Helper()
	list, err := w.target.ListDeadLetters(w.t.Context(), "loop", 0, 100_000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range list {
		ids = append(ids, l.ID)
	}
	return list, ids
}

// wants compares the target's rows, and counts its letters.
func (w *ward) wants(rows string, letters int) {
	w.t.Helper()
	if got := w.rows(); got != rows {
		w.t.Errorf("the target holds %q, want %q", got, rows)
	}
	list, _ := w.letters()
	if len(list) != letters {
		w.t.Errorf("there are %d dead letters, want %d: %+v", len(list), letters, list)
	}
	if s := w.loop.Status(); s.Letters != int64(letters) {
		w.t.Errorf("the status tells of %d dead letters, there are %d", s.Letters, letters)
	}
}

// bothModes runs a test in serial and in fan mode.
func bothModes(t *testing.T, f func(t *testing.T, config logical.Config)) {
	for _, immediate := range []bool{false, true} {
		t.Run(map[bool]string{false: "serial", true: "fan"}[immediate], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f(t, logical.Config{Immediate: immediate}) })
		})
	}
}

func TestOrderLaterMutationsOfARowJoinItsLetter(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, config logical.Config) {
		w := newWard(t, newReplayable(false, "1 good, 2 good", "1 bad1", "1 good2, 2 good2, 1 good3", "3 good"), config, nil)
		w.run()
		w.wants("1 good, 2 good2, 3 good", 3)
		w.again("1 good4", "2 good4") // after a restart too
		w.wants("1 good, 2 good4, 3 good", 4)
		w.sick.mended.Store(true)
		_, ids := w.letters()
		if n, err := w.loop.Replay(t.Context(), ids[1:]); err == nil || n != 0 || !strings.Contains(err.Error(), fmt.Sprint("dead letter ", ids[0])) {
			t.Errorf("%d were replayed before the first: %v", n, err)
		}
		w.wants("1 good, 2 good4, 3 good", 4)
		slices.Reverse(ids) // they have an order of their own
		if n, err := w.loop.Replay(t.Context(), ids); err != nil || n != 4 {
			t.Errorf("%d were replayed, error %v", n, err)
		}
		w.wants("1 good4, 2 good4, 3 good", 0)
		w.again("1 good5")
		w.wants("1 good5, 2 good4, 3 good", 0)
		w.close()
	})
}

// TestOrderOfLettersThatRepeatEachOther has a row go from one state to another and back within a transaction.
func TestOrderOfLettersThatRepeatEachOther(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, config logical.Config) {
		w := newWard(t, newReplayable(false, "2 good, 1 bad1, 1 bad2, 1 bad1"), config, nil)
		w.run()
		w.wants("2 good", 3)
		list, ids := w.letters()
		for i := range list {
			if list[i].Position != i+1 {
				t.Errorf("letter %d stands at %d of its transaction", i, list[i].Position)
			}
		}
		w.sick.mended.Store(true)
		if n, err := w.loop.Replay(t.Context(), ids); err != nil || n != 3 {
			t.Errorf("%d were replayed, error %v", n, err)
		}
		w.wants("1 bad1, 2 good", 0)
		w.close()
	})
}

func TestOrderLettersOfStreamedTransactionsJoin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		long := "1 bad1"
		for i := range 900 {
			long += fmt.Sprintf(", %d good%d", 2+i, i)
		}
		w := newWard(t, newReplayable(false, "1 good", long+", 1 good2"), logical.Config{BytesInFlight: logical.MinBytesInFlight}, nil)
		w.source.batch = 50
		w.run()
		if list, _ := w.letters(); len(list) != 2 || list[1].Reason != errJoined.Error() || !strings.HasPrefix(w.rows(), "1 good, ") {
			t.Errorf("%+v; %.20s", list, w.rows())
		}
		w.close()
	})
}

func TestOrderTruncationJoinsTheLettersOfItsTable(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, config logical.Config) {
		w := newWard(t, newReplayable(false, "1 good, 2 good", "1 bad1", "truncate", "3 good"), config, nil)
		w.run()
		w.wants("1 good, 2 good", 3) // nothing may come before what is held up
		w.sick.mended.Store(true)
		_, ids := w.letters()
		if n, err := w.loop.Replay(t.Context(), ids); err != nil || n != 3 {
			t.Errorf("%d were replayed, error %v", n, err)
		}
		w.wants("3 good", 0)
		w.close()
	})
}

// TestPointsDoNotJoin: to replay one fills only what is null.
func TestPointsDoNotJoin(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, config logical.Config) {
		w := newWard(t, newReplayable(true, "1 bad1, 2 bad2", "1 good"), config, nil)
		w.run()
		w.wants("1 good", 2)
		if w.loop.open.Any() {
			t.Error("a point holds something up")
		}
		w.again()
		if w.loop.open.Any() {
			t.Error("a point holds something up after a restart")
		}
		w.sick.mended.Store(true)
		_, ids := w.letters()
		if n, err := w.loop.Replay(t.Context(), append(ids, 99)); err != nil || n != 2 {
			t.Errorf("%d were replayed, error %v", n, err)
		}
		w.wants("1 good, 2 bad2", 0)
		w.close()
	})
}

func TestNothingSilentRejectedAgainStaysWithItsNewReason(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, config logical.Config) {
		texts := []string{"1 worse, 1 good2, 1 good3", "2 unreadable, 3 good"}
		if config.Immediate { // it would merge them
			texts = append(strings.Split(texts[0], ", "), texts[1])
		}
		w := newWard(t, newReplayable(false, texts...), config, nil)
		w.run()
		w.wants("2 unreadable, 3 good", 3)
		before, ids := w.letters()
		n, err := w.loop.Replay(t.Context(), ids)
		if n != 0 || err == nil {
			t.Fatalf("%d were replayed, error %v", n, err)
		}
		first, ok := stderrors.AsType[*logical.ReplayError](err)
		if !ok || first.ID != ids[0] || !strings.Contains(first.Error(), "sick for ever") {
			t.Errorf("the error says %v", err)
		}
		list, _ := w.letters()
		if len(list) != 3 {
			t.Fatalf("%d letters are left", len(list))
		}
		list = append(list[2:], list[:2]...) // the one that was set aside anew comes last; its place in the source tells its order
		for i := range list {
			if list[i].Fingerprint() != before[i].Fingerprint() {
				t.Errorf("letter %d has changed its place", i)
			}
		}
		if list[0].ID == before[0].ID || !strings.Contains(list[0].Reason, "sick") {
			t.Errorf("the reason is still %+v", list[0])
		}
		w.again("1 good4") // they hold the row up as before
		w.wants("2 unreadable, 3 good", 4)
		w.close()
	})
}

func TestDiscardedLettersHoldNothingUp(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, config logical.Config) {
		w := newWard(t, newReplayable(false, "1 bad1", "1 good2"), config, nil)
		w.run()
		_, ids := w.letters()
		if err := w.loop.Discard(t.Context(), append(ids, 77)); err != nil {
			t.Error(err)
		}
		w.wants("", 0)
		if w.loop.open.Any() {
			t.Error("something is held up")
		}
		w.again("1 good3")
		w.wants("1 good3", 0)
		w.close()
	})
}

// TestReplayExactlyOnceWhateverHappens counts what reaches the target, under chaos and beside a loop that is
// at work.
func TestReplayExactlyOnceWhateverHappens(t *testing.T) {
	t.Parallel()
	seeds(t, 40, 5000, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			counts := map[string]int{}
			texts := []string{"1 bad1, 2 bad3, 3 bad4, 4 good"}
			for i := range 60 {
				texts = append(texts, fmt.Sprintf("%d good%d", 10+i%5, 100+i))
			}
			source := newReplayable(seed%2 == 0, texts...)
			w := newWard(t, source, logical.Config{Immediate: seed%3 == 0}, func(c memory.Commit) {
				for _, m := range c.Mutations {
					counts[m.Values[1].Text()]++
				}
			})
			w.chaos = chaos.New(chaos.Config{Prob: 0.1, Seed: seed, Stall: time.Second})
			w.factory = quietFactory(t, FactoryConfig{Target: w.target, Chaos: w.chaos})
			var err error
			if w.loop, err = w.factory.Get(t.Context(), Spec{Name: "loop", Dialect: source, Config: w.config}); err != nil {
				t.Fatal(err)
			}
			until(w.loop, time.Hour, func(s Status) bool { return s.Point != nil && s.Point.(at).N >= 1 && s.Letters > 0 })
			w.sick.mended.Store(true)
			_, ids := w.letters()
			total := 0
			for try := 0; total < len(ids) && try < 1000; try++ {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				n, _ := w.loop.Replay(ctx, ids) // the loop loses its lease now and then
				cancel()
				total += n
				time.Sleep(time.Second)
			}
			w.await()
			list, _ := w.letters()
			if total > len(ids) || len(list) != 0 {
				t.Errorf("%d of %d were replayed, %d are left", total, len(ids), len(list))
			}
			for _, text := range []string{"bad1", "bad3", "bad4"} {
				if counts[text] != 1 {
					t.Errorf("%s came to the target %d times", text, counts[text])
				}
			}
			w.close()
			time.Sleep(time.Minute) // commits that are late come to their end
			if err := w.target.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestNothingButRejectionsStopTheStream: in both modes, and it goes on when the target is mended.
func TestNothingButRejectionsStopTheStream(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, config logical.Config) {
		var texts []string
		const most = 300
		for i := range 40 {
			var tx []string
			for j := range 20 {
				tx = append(tx, fmt.Sprintf("%d bad%d", i*1000+j, j))
			}
			texts = append(texts, strings.Join(tx, ", "))
		}
		w := newWard(t, newReplayable(true, texts...), config, nil)
		w.factory = quietFactory(t, FactoryConfig{Target: w.target})
		w.factory.maxRejectRun = most
		var err error
		if w.loop, err = w.factory.Get(t.Context(), Spec{Name: "loop", Dialect: w.source, Config: w.config}); err != nil {
			t.Fatal(err)
		}
		until(w.loop, 24*time.Hour, func(s Status) bool { return s.State == StateRejecting })
		time.Sleep(10 * time.Minute)
		st := w.loop.Status()
		list, _ := w.letters()
		if st.State != StateRejecting || len(list) > most+20 || len(list) < most-20 {
			t.Errorf("after %d letters the loop is %s: %v", len(list), st.State, st.Err)
		}
		if st.Err == nil || !strings.Contains(st.Err.Error(), "in a row") || logical.HintOf(st.Err) == "" {
			t.Errorf("it says %v", st.Err)
		}
		_, ids := w.letters()
		if err := w.loop.Discard(t.Context(), ids[:1]); err != nil { // an operator has looked at it
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if more, _ := w.letters(); len(more) <= len(list) {
			t.Errorf("it does not go on when letters are discarded: %d were kept, and now %d", len(list), len(more))
		}
		w.sick.mended.Store(true)
		w.await()
		if st := w.loop.Status(); st.State != StateRunning || w.loop.rejectRun.Load() != 0 {
			t.Errorf("mended, it is %s after %d", st.State, w.loop.rejectRun.Load())
		}
		w.close()
	})
}

func TestReplayNeedsALoopThatRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, newReplayable(false, "1 bad1"), logical.Config{}, nil)
		w.run()
		w.close()
		if n, err := w.loop.Replay(t.Context(), []int64{1}); n != 0 || !errors.Is(err, errNotRunning) {
			t.Errorf("%d were replayed, error %v", n, err)
		}
	})
}
