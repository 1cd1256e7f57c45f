package fan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

// naming is a target that forwards what came, stores what it can, and names what it rejects.
type naming struct {
	void
	mu       sync.Mutex
	applies  int
	accepted []string
	letters  []logical.DeadLetter
}

type namingTx struct {
	voidTx
	target *naming
}

func (n *naming) Begin(context.Context) (logical.Tx, error) { return namingTx{target: n}, nil }

func (x namingTx) Apply(_ context.Context, muts []logical.Mutation) error {
	x.target.mu.Lock()
	defer x.target.mu.Unlock()
	x.target.applies++
	var bad []logical.Rejection
	for i := range muts {
		if muts[i].Raw[0] == '!' {
			bad = append(bad, logical.Rejection{Index: i, Reason: fmt.Errorf("not %s", muts[i].Raw)})
		}
	}
	if bad != nil {
		return &logical.Error{Err: errors.New("some are bad"), Class: logical.ClassReject, Rejected: bad}
	}
	for i := range muts {
		x.target.accepted = append(x.target.accepted, string(muts[i].Raw))
	}
	return nil
}

func (x namingTx) SetAside(_ context.Context, letters []logical.DeadLetter) error {
	x.target.mu.Lock()
	defer x.target.mu.Unlock()
	x.target.letters = append(x.target.letters, letters...)
	return nil
}

// TestNothingSilentNamedRejections decides about what a target names without searching for it.
func TestNothingSilentNamedRejections(t *testing.T) {
	t.Parallel()
	target := &naming{}
	again := true // the first decision about the first bad one
	f := New(Config{
		Session: target, Shards: 1, Raw: true,
		OnReject: func(_ context.Context, r Rejected) Decision {
			if again {
				again = false
				return Decision{Verdict: Again}
			}
			return Decision{Verdict: SetAside, Letter: logical.DeadLetter{Payload: slices.Clone(r.Mutation.Raw), Reason: r.Err.Error()}}
		},
	})
	defer func() { _ = f.Close(context.Background()) }()
	var muts []logical.Mutation
	var good, bad []string
	for i := range 300 {
		raw := fmt.Sprint(i)
		if i%50 == 7 {
			raw = "!" + raw
			bad = append(bad, raw+" not "+raw)
		} else {
			good = append(good, raw)
		}
		muts = append(muts, logical.Mutation{Op: logical.OpPatch, Relation: points, Route: 1, Raw: []byte(raw)})
	}
	must(t, f.Begin(t.Context(), num(1)))
	must(t, f.Data(t.Context(), muts))
	must(t, f.Commit())
	must(t, f.Drain(t.Context()))
	wantPoint(t, f, 1)
	var kept []string
	for _, l := range target.letters {
		kept = append(kept, string(l.Payload)+" "+l.Reason)
	}
	slices.Sort(kept) // the first one was decided about last
	slices.Sort(bad)
	if !slices.Equal(kept, bad) || !slices.Equal(target.accepted, good) {
		t.Errorf("set aside %v, accepted %d; want %v and %d in order", kept, len(target.accepted), bad, len(good))
	}
	if target.applies > 10 { // a search takes some eight for each
		t.Errorf("%d applies", target.applies)
	}
}
