package logical

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// errReadAgain restarts a loop at once: nothing is wrong with the source or the target.
var errReadAgain = errors.New("the transaction is read again")

// placeOf returns where the i-th mutation stands in the source.
type placeOf func(i int) place

// places returns where the mutations of joined segments stand.
func places(batch ...*segment) placeOf {
	return func(i int) place {
		for _, seg := range batch[:len(batch)-1] {
			if i < len(seg.muts) {
				return place{seg.stamp, seg.base + i}
			}
			i -= len(seg.muts)
		}
		seg := batch[len(batch)-1]
		return place{seg.stamp, seg.base + i}
	}
}

// reject finds out which mutations the target rejects, and returns the bad ones with them. It returns
// an error when the policy is to stop, when the dead letters would grow over their bound, or when it
// could not find out.
func (w *writer) reject(ctx context.Context, muts []logical.Mutation, place placeOf, bad badMutations, cause error) (badMutations, error) {
	if w.config.OnReject == logical.RejectStop {
		return bad, cause
	}
	list := logical.RejectedOf(cause)
	if len(list) == 0 {
		var err error
		if list, err = w.bisect(ctx, bad.without(muts)); err != nil {
			return bad, err
		}
	}
	return w.blame(muts, place, bad, list, cause)
}

// blame returns the bad mutations with those of the list, whose places are among the good ones. It returns an error
// when there would be too many.
func (w *writer) blame(muts []logical.Mutation, place placeOf, bad badMutations, list []logical.Rejection, cause error) (badMutations, error) {
	grown := bad
	for _, r := range list {
		at := bad.index(r.Index)
		grown = grown.with(w.bad(&muts[at], at, place(at), r.Reason))
	}
	if w.loop.rejectRun.Load()+int64(grown.leading()) >= w.loop.maxRejectRun {
		return bad, onlyRejected(cause, w.loop.maxRejectRun)
	}
	return grown, w.roomFor(grown, cause)
}

// bad makes the record of a bad mutation.
func (w *writer) bad(m *logical.Mutation, at int, p place, reason error) badMutation {
	stamp, err := encodeStamp(p.stamp)
	if err != nil {
		stamp = json.RawMessage("null")
	}
	return badMutation{
		at: at, stamp: p.stamp, points: m.Relation.Points, reason: reason,
		letter: logical.NewDeadLetter(m, w.loop.identity, stamp, p.position, reason, time.Now()),
	}
}

// joined returns the bad mutations with those added that join the dead letters of their rows: letters
// that the target keeps, or those of the bad ones before them. What parts of one transaction have found
// so far is in within.
func (w *writer) joined(muts []logical.Mutation, place placeOf, bad badMutations, within *openLetters) badMutations {
	open := w.loop.open
	if w.config.OnReject != logical.RejectDeadLetter || len(bad) == 0 && !open.Any() && !within.Any() {
		return bad
	}
	all := make(badMutations, 0, len(bad))
	for i := range muts {
		m := &muts[i]
		switch {
		case len(bad) > 0 && bad[0].at == i:
			all = append(all, bad[0])
			bad = bad[1:]
		case open.joins(place(i), m) || within.joins(place(i), m):
			one := w.bad(m, i, place(i), errJoined)
			one.joins = true
			all = append(all, one)
		default:
			continue
		}
		if last := &all[len(all)-1]; !last.points {
			within.settled(&last.letter, last.stamp, false)
		}
	}
	return all
}

// roomFor reports an error if the letters of the bad mutations would exceed the bound.
func (w *writer) roomFor(bad badMutations, cause error) error {
	if w.config.OnReject != logical.RejectDeadLetter || w.loop.letterBytes()+bad.bytes() <= w.config.MaxDeadLetterBytes {
		return nil
	}
	return tooManyLetters(cause)
}

// maxRejectRun is how many mutations in a row may be rejected without one that is accepted. Beyond it something
// is wrong with the target as a whole, and the stream stops.
const maxRejectRun = 10_000

// errJoined is the reason of a mutation that was not rejected itself.
var errJoined = errors.New("an earlier mutation of the same row is a dead letter")

func onlyRejected(cause error, n int64) error {
	return &logical.Error{
		Err:   errors.WithMessagef(cause, "the target has rejected %d mutations in a row and accepted none", n),
		Class: logical.ClassReject,
		Hint:  "look at the dead letters and mend the target: the stream goes on when it accepts a mutation, or when dead letters are discarded or replayed",
	}
}

func tooManyLetters(cause error) error {
	return &logical.Error{
		Err:   errors.WithMessage(cause, "the dead letters of this loop have reached their bound"),
		Class: logical.ClassReject,
		Hint:  "mend the cause, then replay or discard the dead letters",
	}
}

// settledBad makes what was set aside visible (NOTHING SILENT), once it has been committed.
func (w *writer) settledBad(bad badMutations) {
	if len(bad) == 0 {
		return
	}
	if w.config.OnReject == logical.RejectDeadLetter {
		for i := range bad {
			w.loop.open.settled(&bad[i].letter, bad[i].stamp, bad[i].points)
		}
	}
	w.loop.rejected(len(bad), bad[0].reason)
}
