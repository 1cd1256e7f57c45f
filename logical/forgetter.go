package logical

import "context"

// A Forgetter is a target that can forget a loop for good. Targets that store something about loops
// implement it.
type Forgetter interface {
	// Forget takes the loop over, which waits for transactions of its own that are under way, and
	// removes what the target stores about it: its memo, its lease, and, unless they are to be kept, its
	// dead letters. Its epoch must not begin anew with the next loop of that name (FENCED). Forgetting what is not
	// known does nothing. The loop must not run.
	Forget(ctx context.Context, claim Claim, keepLetters bool) error
}
