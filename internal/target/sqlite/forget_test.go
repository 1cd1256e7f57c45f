package sqlite

import (
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// TestFencedAlsoAfterForget: a process sleeps while its loop is forgotten and made anew; what it then writes is
// refused, although the loop has as many takeovers behind it as before.
func TestFencedAlsoAfterForget(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	old := take(t, target, "loop", "old")
	old.(*session).Stop() // the process sleeps, and its lease runs out
	exec(t, target, "UPDATE _tailrace_loops SET expires = 0")
	if err := target.Forget(t.Context(), logical.Claim{Loop: "loop", Holder: "new", TTL: time.Minute}, false); err != nil {
		t.Fatal(err)
	}
	rel := cpu(field("v", logical.KindInt64))
	now := take(t, open(t, Config{Path: target.cfg.Path}), "loop", "newer")
	apply(t, now, point(rel, 1, 1, logical.Text("h"), logical.Int64(2)))
	err := tryApply(t.Context(), old, point(rel, 1, 1, logical.Text("h"), logical.Int64(1)))
	if logical.ClassOf(err) != logical.ClassFenced {
		t.Errorf("the old session wrote: error %v, rows %v", err, rows(t, target, `SELECT v FROM cpu`))
	}
}
