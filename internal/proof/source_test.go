package proof

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// at is the stamp of the n-th transaction, counted from 1.
type at struct {
	N int `json:"n"`
}

func (s at) Compare(other logical.Stamp) int { return cmp.Compare(s.N, other.(at).N) }

// source is a source that replays transactions, one message each.
type source struct {
	txs   [][]logical.Mutation
	batch int
	pause time.Duration // between two transactions
	part  time.Duration // between two parts of one
}

func (d *source) ZeroStamp() logical.Stamp { return at{} }

func (d *source) DecodeStamp(stored []byte) (logical.Stamp, error) {
	var s at
	err := json.Unmarshal(stored, &s)
	return s, err
}

func (d *source) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	for n := from.(at).N + 1; n <= len(d.txs); n++ {
		if err := pause(ctx, d.pause); err != nil {
			return err
		}
		if err := out.Send(ctx, logical.Message{Body: n, Size: 64}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *source) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	for {
		msg, err := in.Receive(ctx)
		if err != nil {
			return err
		}
		if msg.Rollback {
			err = events.OnRollback(ctx)
		} else {
			err = d.play(ctx, msg.Body.(int), events)
		}
		if err != nil {
			return err
		}
	}
}

func (d *source) play(ctx context.Context, n int, events logical.Events) error {
	if err := events.OnBegin(ctx, at{n}); err != nil {
		return err
	}
	for muts := d.txs[n-1]; len(muts) > 0; {
		k := min(max(d.batch, 1), len(muts))
		if err := events.OnData(ctx, muts[:k]); err != nil {
			return err
		}
		if muts = muts[k:]; len(muts) > 0 {
			if err := pause(ctx, d.part); err != nil {
				return err
			}
		}
	}
	return events.OnCommit(ctx)
}

// OldestPending implements logical.Stalenesser: the source knows no times.
func (d *source) OldestPending(logical.Stamp) (time.Time, bool) { return time.Time{}, false }

// Newest implements logical.Stalenesser.
func (d *source) Newest() (logical.Stamp, bool) { return at{len(d.txs)}, true }
