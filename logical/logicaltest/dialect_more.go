package logicaltest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// follows: what is added to the source while it is read comes after what was there.
func (r *reading) follows() {
	if r.source.Add == nil {
		r.Log("the source cannot be added to")
		return
	}
	d, end := r.open()
	p := r.play(d, d.ZeroStamp())
	added := 0
	n := r.source.Transactions
	p.run(func() bool {
		for len(p.txs) >= n+added && added < 3 {
			added++
			p.mu.Unlock()                     // the source may wait for its reader,
			time.Sleep(20 * time.Millisecond) // who should have come to wait for the source
			r.source.Add(r)
			p.mu.Lock()
		}
		return len(p.txs) >= n+3
	})
	end()
	want, muts := perKey(p.txs)
	// Read anew, transactions may fall together that came one by one; what happened to a key may not change.
	fresh, _ := r.open()
	again := r.play(fresh, fresh.ZeroStamp())
	again.run(func() bool {
		_, n := perKey(again.txs)
		return n >= muts
	})
	got, _ := perKey(again.txs)
	for key, texts := range want {
		if !slices.Equal(got[key], texts) {
			r.Errorf("ORDER: what happened to a key was\n  %s\nand read anew it is\n  %s", strings.Join(texts, "\n  "), strings.Join(got[key], "\n  "))
			return
		}
	}
}

// perKey returns what happened to each key, in order, and how many mutations there are.
func perKey(txs history) (keys map[string][]string, muts int) {
	keys = map[string][]string{}
	for _, x := range txs {
		for i := range x.muts {
			key := string(x.muts[i].AppendKey(nil))
			keys[key] = append(keys[key], x.texts[i])
			muts++
		}
	}
	return keys, muts
}

// staleness: what waits is known, whether or not it has been read.
func (r *reading) staleness() {
	d, _ := r.open()
	source, ok := d.(logical.Stalenesser)
	if !ok {
		return
	}
	p := r.play(d, d.ZeroStamp())
	p.run(func() bool {
		if len(p.txs) < r.source.Transactions {
			return false
		}
		r.judgeStaleness(source, p.txs)
		return true
	})
}

// judgeStaleness asks while the dialect is at the end of its source.
func (r *reading) judgeStaleness(source logical.Stalenesser, txs history) {
	last := txs[len(txs)-1].stamp
	if at, known := eventually(r.patience(), func() (time.Time, bool) { return source.OldestPending(last) }); !known || !at.IsZero() {
		r.Errorf("after the last transaction something waits since %v (known: %v)", at, known)
	}
	if newest, known := eventually(r.patience(), source.Newest); !known || newest.Compare(last) < 0 {
		r.Errorf("the newest position is %v (known: %v), but %s was sent", newest, known, txs[len(txs)-1].stored)
	}
	for _, after := range []logical.Stamp{source.ZeroStamp(), txs[0].stamp, txs[len(txs)-2].stamp} {
		at, known := source.OldestPending(after)
		if !known || at.IsZero() || at.After(time.Now().Add(time.Minute)) {
			r.Errorf("after %v nothing waits, or since %v (known: %v)", after, at, known)
		}
	}
}

// eventually asks until it gets an answer.
func eventually[T any](within time.Duration, ask func() (T, bool)) (answer T, known bool) {
	for limit := time.Now().Add(within); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if answer, known = ask(); known {
			return answer, true
		}
	}
	return answer, false
}

// acknowledges: what is after the acknowledged stamp can still be read, also by a successor.
func (r *reading) acknowledges() {
	d, end := r.open()
	if _, ok := d.(logical.Acknowledger); !ok {
		return
	}
	end()
	want := r.whole()
	for _, i := range []int{0, len(want) / 2, len(want) - 2} {
		d, end := r.open()
		source := d.(logical.Acknowledger)
		for _, stamp := range []logical.Stamp{source.ZeroStamp(), want[i].stamp, want[i].stamp} {
			if err := source.Acknowledge(r.context(), stamp); err != nil {
				r.Fatalf("acknowledge %v: %v", stamp, err)
			}
		}
		end()
		for _, stored := range [][]byte{want[i].stored, nil} {
			d, end := r.open()
			from := d.ZeroStamp() // a source that keeps a cursor goes on at that
			if stored != nil {
				var err error
				if from, err = d.DecodeStamp(stored); err != nil {
					r.Fatalf("the stored stamp %s cannot be read back: %v", stored, err)
				}
			}
			p := r.play(d, from)
			last := want[len(want)-1].stamp
			p.run(func() bool { return len(p.txs) > 0 && p.txs[len(p.txs)-1].stamp.Compare(last) >= 0 })
			if n := len(p.txs); stored == nil && n > len(want)-i-1 && n <= len(want) {
				p.same(want[len(want)-n:]) // it has kept more than it must
			} else {
				p.same(want[i+1:])
			}
			end()
		}
	}
}

// backfills: a backfill has an end, and from its end, or from after it, there is nothing to backfill.
func (r *reading) backfills() {
	d, end := r.open()
	if _, ok := d.(logical.Backfiller); !ok {
		return
	}
	p := r.play(d, d.ZeroStamp())
	p.run(func() bool { return p.backfill })
	end()
	if len(p.txs) == 0 || r.Failed() {
		r.Errorf("a backfill from the beginning sends nothing")
		return
	}
	whole := r.whole()
	for _, x := range append(whole[len(p.txs):], p.txs[len(p.txs)-1]) {
		d, end := r.open()
		var sent counted
		ctx, cancel := context.WithTimeout(r.context(), r.patience())
		if err := d.(logical.Backfiller).BackfillInto(ctx, x.stamp, &sent); err != nil || sent > 0 && x.stamp.Compare(whole[len(whole)-1].stamp) == 0 {
			r.Errorf("a backfill from %s, where there is nothing to catch up with: %d messages, error %v", x.stored, sent, err)
		}
		cancel()
		end()
	}
}

// counted is an outbox that takes everything.
type counted int

// Send implements logical.Outbox.
func (c *counted) Send(context.Context, logical.Message) error {
	*c++
	return nil
}

// leases: one holds the lease, the next one waits.
func (r *reading) leases() {
	d, _ := r.open()
	first, ok := d.(logical.Lessor)
	if !ok {
		return
	}
	ctx := r.context()
	lease, err := first.Acquire(ctx, "loop")
	if err != nil {
		r.Fatalf("acquire: %v", err)
	}
	other, _ := r.open()
	second := other.(logical.Lessor)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := second.Acquire(short, "loop"); err == nil {
		r.Errorf("FENCED: two hold the lease of one loop")
	}
	select {
	case <-lease.Lost():
		r.Errorf("a lease that is held says that it is lost")
	default:
	}
	if err := lease.Release(ctx); err != nil {
		r.Errorf("release: %v", err)
	}
	next, err := second.Acquire(ctx, "loop")
	if err != nil {
		r.Fatalf("FENCED: after its release the lease cannot be acquired: %v", err)
	}
	if err := next.Release(ctx); err != nil {
		r.Errorf("release: %v", err)
	}
}
