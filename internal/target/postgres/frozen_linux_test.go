package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// childDSN makes this binary a process that applies transactions until it cannot.
const childDSN = "TAILRACE_TEST_CHILD_DSN"

// child is that process. It returns its exit status.
func child() int {
	ctx := context.Background()
	target, err := Open(ctx, Config{DSN: os.Getenv(childDSN), IdleTimeout: 300 * time.Millisecond, ApplyTimeout: 5 * time.Second})
	if err == nil {
		var s logical.Session
		if s, err = target.Take(ctx, logical.Claim{Loop: "loop", Holder: "one", TTL: time.Second}); err == nil {
			for n := int64(1); err == nil; n++ {
				err = applyNumbered(ctx, s, n, "one")
			}
		}
	}
	fmt.Println(logical.ClassOf(err), err)
	return 3
}

// applyNumbered applies the transaction of a number, in two parts, with its memo.
func applyNumbered(ctx context.Context, s logical.Session, n int64, who string) error {
	rel := logicaltest.Points("m", nil, logicaltest.Field("who", logical.KindText), logicaltest.Field("n", logical.KindInt64))
	muts := []logical.Mutation{
		logicaltest.Point(rel, n*1000, 1, logical.Text(who), logical.Int64(n)),
		logicaltest.Point(rel, -1000, 1, logical.Text(who), logical.Int64(n)), // one row that each transaction writes over
	}
	if err := s.Prepare(ctx, logicaltest.Relations(muts)); err != nil {
		return err
	}
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	for i := range muts {
		if err == nil {
			err = tx.Apply(ctx, muts[i:i+1])
		}
		if err == nil && n%3 == 0 {
			err = tx.Apply(ctx, nil) // so that it is open at the server for a while
		}
	}
	if err == nil {
		err = tx.SetMemo(ctx, logical.MemoState{Point: json.RawMessage(fmt.Sprint(n)), Mode: "serial"})
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		_ = tx.Rollback(ctx) // the error of the transaction is the one to report
	}
	return err
}

// TestStoppedProcessWritesNothingLate (FENCED) stops a process with SIGSTOP past its lease, wherever it is in a
// transaction, while another takes its loop over; then the first goes on.
func TestStoppedProcessWritesNothingLate(t *testing.T) {
	t.Parallel()
	for round := range testenv.Count(3, 40) {
		target := open(t, Config{})
		take(t, target, "other", "me") // makes the staging tables
		exec(t, target, `CREATE TABLE m ("time" timestamptz, nanos smallint, series uuid, who text, n bigint, PRIMARY KEY ("time", nanos, series));
CREATE TABLE applied (n bigint, who text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO applied VALUES (NEW.n, NEW.who); RETURN NEW; END $$;
CREATE TRIGGER note BEFORE INSERT ON m FOR EACH ROW WHEN (NEW."time" > 'epoch') EXECUTE FUNCTION note()`)
		cmd := osexec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childDSN+"="+target.cfg.DSN)
		var told bytes.Buffer
		cmd.Stdout, cmd.Stderr = &told, &told
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		enough := int64(5 + 7*round)
		for deadline := time.Now().Add(time.Minute); ; {
			got := rows(t, target, "SELECT coalesce(max(n), 0) >= "+fmt.Sprint(enough)+" FROM m")
			if got[0][0] == "t" {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the process does not come to %d: %s", enough, told.String())
			}
		}
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		s, err := target.Take(ctx, logical.Claim{Loop: "loop", Holder: "two", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		state, err := s.LoadMemo(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var taken int64
		if err := json.Unmarshal(state.Point, &taken); err != nil {
			t.Fatal(err)
		}
		last := taken + 20
		for n := taken + 1; n <= last; n++ {
			if n == taken+5 {
				if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
			if err := applyNumbered(ctx, s, n, "two"); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait() // it ends by itself, and its status is 3
		cancel()
		if cmd.ProcessState.ExitCode() != 3 || !strings.Contains(told.String(), "fenced") && !strings.Contains(told.String(), "terminat") {
			t.Errorf("the process ended with status %d and said %q", cmd.ProcessState.ExitCode(), told.String())
		}
		got := fmt.Sprint(rows(t, target, `SELECT (SELECT count(*) FROM applied), (SELECT count(DISTINCT n) FROM applied),
	(SELECT max(n) FROM applied), (SELECT count(*) FROM applied WHERE who <> CASE WHEN n <= `+fmt.Sprint(taken)+` THEN 'one' ELSE 'two' END),
	(SELECT who || n FROM m WHERE "time" < 'epoch')`))
		if want := fmt.Sprintf("[[%d %d %d 0 two%d]]", last, last, last, last); got != want {
			t.Errorf("applied, different, newest, by the wrong process, last row: %s, want %s; the process said %q", got, want, told.String())
		}
		if err := s.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
