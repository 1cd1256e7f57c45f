package logical

import (
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// known is what was found out about a transaction that is streamed, when it was read before.
type known struct {
	bad badMutations // by their places in the transaction
	// One that is refused is among those from a place up to another. It is looked for in slices of this many;
	// 0 if there is none to be looked for.
	from, to, step int
}

// maxSlices is in how many slices the mutations are applied that hold one which is refused. Each costs a round
// trip, and each read of the source finds the slice that holds it.
const maxSlices = 64

// slice returns how many of the mutations from a place on are applied at once, of those that are there.
func (k *known) slice(at, n int) int {
	switch {
	case k.step == 0 || at >= k.to:
		return n
	case at < k.from:
		return min(n, k.from-at)
	}
	return min(n, k.step, k.to-at)
}

// search has one that is refused looked for among the n mutations from a place on.
func (k *known) search(at, n int) {
	k.from, k.to, k.step = at, at+n, (n+maxSlices-1)/maxSlices
}

// rejectPart handles the rejection of a part of a streamed transaction, which begins at base and of which some are
// set aside already. What was found out is remembered for when the source is read again. Nothing is tried without
// what comes before it in the transaction: it may depend on that.
func (w *writer) rejectPart(seg *segment, base int, k *known, aside badMutations, cause error) error {
	if !refused(cause) || w.config.OnReject == logical.RejectStop {
		return cause
	}
	list, good := logical.RejectedOf(cause), len(seg.muts)-len(aside)
	switch {
	case good == 0:
		return cause // it is not about a mutation
	case len(list) == 0 && good == 1:
		list = []logical.Rejection{{Index: 0, Reason: cause}}
	case len(list) == 0:
		k.search(base, len(seg.muts))
		return errReadAgain
	}
	grown, err := w.blame(seg.muts, places(seg), aside, list, cause)
	if err != nil {
		return err
	}
	all := k.bad
	for _, m := range grown.moved(base) {
		if !m.joins { // that is found out each time
			all = all.with(m)
		}
	}
	if err := w.roomFor(all, cause); err != nil {
		return err
	}
	k.bad = all // more of them are often close by
	return errReadAgain
}

// refusedAtTheEnd says of a constraint that is checked when a streamed transaction ends what can be done: which
// mutations violate it is found out by trying the whole transaction without some of them, from memory.
func (w *writer) refusedAtTheEnd(err error) error {
	if !refused(err) || w.config.OnReject == logical.RejectStop {
		return err
	}
	return &logical.Error{
		Err:   errors.WithMessage(err, "a transaction that is too large to be held violates a constraint which is checked at its end"),
		Class: logical.ClassOf(err),
		Hint:  "mend the cause in the target; or raise --bytesInFlight to a few times the size of the transaction, so that what is wrong in it can be found and set aside",
	}
}

// knownOf returns what is known of a streamed transaction, to be added to. There is one such transaction at a time,
// and the goroutine that applies it calls this and forgetKnown.
func (l *Loop) knownOf(stamp logical.Stamp) *known {
	key, err := encodeStamp(stamp)
	if err != nil {
		return &known{}
	}
	k, found := l.known[string(key)]
	if !found {
		k = &known{}
		l.known[string(key)] = k
	}
	return k
}

// forgetKnown is called when a streamed transaction has landed.
func (l *Loop) forgetKnown() { clear(l.known) }
