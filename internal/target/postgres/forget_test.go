package postgres

import (
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestFencedAlsoAfterForget: a process sleeps while its loop is forgotten and made anew; what it then writes is
// refused, although the loop has as many takeovers behind it as before.
func TestFencedAlsoAfterForget(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	old := take(t, target, "loop", "old")
	old.(*session).Stop() // the process sleeps, and its lease runs out
	exec(t, target, "UPDATE _tailrace.leases SET expires = now() - interval '1 s'; CREATE TABLE u (k bigint PRIMARY KEY, email text)")
	if err := target.Forget(t.Context(), logical.Claim{Loop: "loop", Holder: "new", TTL: time.Minute}, false); err != nil {
		t.Fatal(err)
	}
	now := take(t, open(t, Config{DSN: target.cfg.DSN}), "loop", "newer")
	write := func(s logical.Session, email string) error {
		return logicaltest.Apply(t.Context(), s, mutate(logical.OpUpsert, userRelation(), logical.Int64(1), logical.Text(email)))
	}
	if err := write(now, "new"); err != nil {
		t.Fatal(err)
	}
	if err := write(old, "old"); logical.ClassOf(err) != logical.ClassFenced {
		t.Errorf("the old session wrote: error %v, rows %v", err, rows(t, target, "SELECT * FROM u"))
	}
}
