package e2e

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

// countedPostgres makes the table and a trigger that notes each application of a line, with the mode
// that the memo names at that moment. In serial mode the memo is written after the data, so that the
// first transaction after a switch is noted by the mode before: the note "serial" is always true.
func countedPostgres(t *testing.T, dir string, db *sql.DB, args []string) {
	t.Helper()
	p := launch(t, dir, args...)
	p.write("kill,n=first value=0i")
	awaitCount(t, db, "SELECT count(*) FROM kill", 1)
	execute(t, db,
		`CREATE TABLE applied (n text, mode text)`,
		`CREATE FUNCTION applied() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO applied SELECT NEW.n, (SELECT min(mode) FROM _tailrace.memo);
			RETURN NEW;
		END $$`,
		`CREATE TRIGGER applied BEFORE INSERT OR UPDATE ON kill FOR EACH ROW EXECUTE FUNCTION applied()`,
	)
	p.kill()
}

// TestAckedPointsSurviveKillsOfServerAndPostgresExactlyOnce is the test of kill_test.go with
// PostgreSQL, which is killed too. The loop stays serial, so that every acknowledged line must have
// been applied exactly once.
func TestAckedPointsSurviveKillsOfServerAndPostgresExactlyOnce(t *testing.T) {
	t.Parallel()
	k := newPostgresKills(t, "--backfillWindow", "0s")
	batches := k.run(testenv.Count(8, 30), testenv.Count(2, 8), 0)
	p := k.launch()
	p.arrived(k.db, batches)
	check(t, k.db, batches, once)
	if n := count(t, k.db, "SELECT count(*) FROM applied WHERE mode <> 'serial'"); n > 0 || k.switches > 0 {
		t.Errorf("%d lines were applied in another mode, %v switches", n, k.switches)
	}
	if code := p.stop(); code != 0 {
		t.Errorf("exit status %d:\n%s", code, p.output())
	}
}

// TestAckedPointsSurviveKillsAcrossModeSwitches has a window so short that each time PostgreSQL or the
// server is away makes the stream stale. What was applied in serial mode must have been applied exactly
// once; what was applied in fan mode may have been applied again (CONVERGE).
func TestAckedPointsSurviveKillsAcrossModeSwitches(t *testing.T) {
	t.Parallel()
	const window = 2 * time.Second
	// With a small budget, what piles up while PostgreSQL is away is left to the fan.
	k := newPostgresKills(t, "--backfillWindow", window.String(), "--standbyTimeout", "500ms", "--retryDelay", "20ms",
		"--bytesInFlight", "256KiB")
	batches := k.run(testenv.Count(8, 30), testenv.Count(2, 8), window+window/4)
	p := k.launch()
	p.arrived(k.db, batches)
	serial, again := map[string]int{}, 0
	pairs(t, k.db, "SELECT n, count(*) FROM applied WHERE mode = 'serial' GROUP BY n", serial)
	check(t, k.db, batches, func(line int) bool { again++; return serial[fmt.Sprint(line)] > 0 })
	eventually(t, 30*time.Second, "the loop does not come back to serial mode", func() bool {
		return p.metric("logical_mode", `mode="serial"`) == 1
	})
	k.switches += p.metric("logical_mode_switches_total")
	fanned := count(t, k.db, "SELECT count(DISTINCT n) FROM applied WHERE mode = 'backfill'")
	t.Logf("%v switches; lines applied serially %d, by a fan %d; more than once %d", k.switches, len(serial), fanned, again)
	if k.switches == 0 || len(serial) == 0 || fanned == 0 {
		t.Error("the modes were not switched, or one of them did nothing: the test proves nothing")
	}
	if code := p.stop(); code != 0 {
		t.Errorf("exit status %d:\n%s", code, p.output())
	}
}

// postgresKills is one installation with a PostgreSQL server of its own, under attack.
type postgresKills struct {
	t        *testing.T
	random   *rand.Rand
	server   *testenv.Postgres
	db       *sql.DB
	dir      string
	args     []string
	switches float64 // of modes, over all processes
}

func newPostgresKills(t *testing.T, args ...string) *postgresKills {
	t.Helper()
	k := &postgresKills{t: t, random: seeded(t), dir: t.TempDir(), server: testenv.StartPostgres(t, testenv.PostgresOptions{})}
	dsn := k.server.DSN("postgres")
	k.db = openPostgres(t, dsn)
	k.args = append([]string{"--targetConn", dsn}, args...)
	countedPostgres(t, k.dir, k.db, k.args)
	return k
}

func (k *postgresKills) launch() *process { return launch(k.t, k.dir, k.args...) }

// wait lets a random time go by.
func (k *postgresKills) wait(most time.Duration) {
	<-time.After(time.Duration(k.random.Int64N(int64(most))))
}

// run kills the server again and again, and PostgreSQL in some of the rounds. Both are away for so
// long at times.
func (k *postgresKills) run(kills, ofPostgres int, away time.Duration) []batch {
	every := kills / ofPostgres
	start := func(round int) *process {
		if round%4 == 2 {
			<-time.After(away)
		}
		return k.launch()
	}
	return underKills(k.t, k.random, kills, start, func(round int, p *process) {
		switch round % 4 {
		case 0: // in serial mode, if the loop comes there in time
			k.within(5*time.Second, func() bool { return p.metric("logical_mode", `mode="serial"`) == 1 })
		case 1, 2: // in the middle of the work, of a fan or not
			k.within(10*time.Second, func() bool { return p.metric("logical_mutations_total") > 0 })
		}
		k.wait(600 * time.Millisecond)
		if round%every == every-1 {
			k.server.Kill()
			<-time.After(away)
			k.server.Restart(k.t)
			// A fan is at work while the next blow falls, or it is over by then.
			k.wait(2 * time.Second)
		}
		k.switches += p.metric("logical_mode_switches_total")
	})
}

// within waits until a condition holds, but not for longer than that: the blow falls anyway.
func (k *postgresKills) within(most time.Duration, holds func() bool) {
	for deadline := time.Now().Add(most); !holds() && time.Now().Before(deadline); {
		<-time.After(20 * time.Millisecond)
	}
}
