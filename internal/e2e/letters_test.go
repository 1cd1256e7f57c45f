package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

type letterList struct {
	DeadLetters []struct {
		ID                                int64
		Table, Operation, Payload, Reason string
		Time                              time.Time
	}
	Next int64
}

// letters lists the dead letters of a replication.
func (p *process) letters(replication, query string) (list letterList) {
	p.t.Helper()
	p.must(http.MethodGet, "/api/v2/replications/"+replication+"/deadletters"+query, "", &list)
	return list
}

// handle replays or drops dead letters, and returns how many.
func (p *process) handle(replication, what, body string) int {
	p.t.Helper()
	var done struct{ Count int }
	p.must(http.MethodPost, "/api/v2/replications/"+replication+"/deadletters/"+what, body, &done)
	return done.Count
}

// awaitLetters waits until the status tells of n letters, and nothing waits any more.
func (p *process) awaitLetters(replication string, n int64) {
	p.t.Helper()
	eventually(p.t, time.Minute, fmt.Sprintf("the status does not tell of %d letters", n), func() bool {
		st := p.replication(replication)
		return st.DeadLetters != nil && *st.DeadLetters == n && st.RemainingBytesToBeSynced == 0 && st.State == "running"
	})
}

// conflicts are four points that do not fit the first, each in a write with one that does.
func (p *process) conflicts() {
	p.t.Helper()
	p.write("m,k=a v=1i 1000")
	for i := range 4 {
		p.write(fmt.Sprintf("m,k=a v=%di %d\nm,k=b v=\"text %d\" %d", i, 2000+i, i, 2000+i))
	}
}

// TestDeadLettersInSQL has points of another type become dead letters, lists them, mends the column, and replays
// them: twice at once, and each is inserted once, which the database itself counts. Others are dropped.
func TestDeadLettersInSQL(t *testing.T) {
	t.Parallel()
	type server struct {
		db      *sql.DB
		args    []string
		letters string
		mend    []string
	}
	for name, open := range map[string]func(t *testing.T, dir string) server{
		"SQLite": func(t *testing.T, dir string) server {
			return server{db: openTarget(t, dir), letters: "SELECT count(*) FROM _tailrace_dead_letters", mend: []string{
				`ALTER TABLE m RENAME TO of_numbers`,
				`CREATE TABLE m (time INTEGER NOT NULL, series BLOB NOT NULL, k TEXT, v TEXT, PRIMARY KEY (time, series)) STRICT, WITHOUT ROWID`,
				`INSERT INTO m (time, series, k, v) SELECT time, series, k, v FROM of_numbers`,
				`CREATE TABLE seen (time INTEGER, v TEXT)`,
				`CREATE TRIGGER inserted AFTER INSERT ON m BEGIN INSERT INTO seen VALUES (new.time, new.v); END`,
				`CREATE TRIGGER changed AFTER UPDATE ON m BEGIN INSERT INTO seen VALUES (new.time, new.v); END`,
			}}
		},
		"PostgreSQL": func(t *testing.T, _ string) server {
			dsn := env.Postgres(t)
			return server{db: openPostgres(t, dsn), args: []string{"--targetConn", dsn}, letters: "SELECT count(*) FROM _tailrace.dead_letters", mend: []string{
				`ALTER TABLE m ALTER COLUMN v TYPE text`,
				`CREATE TABLE seen (at timestamptz, v text)`,
				`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (new."time", new.v); RETURN NULL; END $$`,
				`CREATE TRIGGER noted AFTER INSERT OR UPDATE ON m FOR EACH ROW EXECUTE FUNCTION note()`,
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir)
			p := launch(t, dir, s.args...)
			_, _, replication := p.defaults()
			p.conflicts()
			p.awaitLetters(replication, 4)
			awaitCount(t, s.db, "SELECT count(*) FROM m", 5)
			page := p.letters(replication, "?limit=3")
			list := p.letters(replication, fmt.Sprintf("?after=%d", page.Next))
			if len(page.DeadLetters) != 3 || len(list.DeadLetters) != 1 || list.Next != 0 {
				t.Fatalf("the pages are %+v and %+v", page, list)
			}
			all := append(page.DeadLetters, list.DeadLetters...)
			for i, l := range all {
				if want := fmt.Sprintf("m,k=b v=\"text %d\" %d", i, 2000+i); l.Payload != want || l.Table != "m" || l.Reason == "" || time.Since(l.Time).Abs() > time.Hour {
					t.Errorf("letter %d is %+v, want %s", i, l, want)
				}
			}

			// Before the cause is mended, replaying changes nothing.
			if status, text := p.api(http.MethodPost, "/api/v2/replications/"+replication+"/deadletters/replay", `{"all":true}`); status != http.StatusUnprocessableEntity || !strings.Contains(text, "4 dead letters stay") {
				t.Errorf("replaying what still does not fit: %d %s", status, text)
			}
			awaitCount(t, s.db, s.letters, 4)
			all = p.letters(replication, "").DeadLetters // they have new reasons, and new ids
			execute(t, s.db, s.mend...)
			if n := p.handle(replication, "drop", fmt.Sprintf(`{"ids":[%d]}`, all[3].ID)); n != 1 {
				t.Errorf("%d letters were dropped, want 1", n)
			}
			var hands sync.WaitGroup
			counts := make([]int, 3)
			for i := range counts {
				hands.Go(func() {
					status, text := p.api(http.MethodPost, "/api/v2/replications/"+replication+"/deadletters/replay", `{"all":true}`)
					var done struct{ Count int }
					if status != http.StatusOK || json.Unmarshal([]byte(text), &done) != nil {
						t.Errorf("replaying: %d %s", status, text)
					}
					counts[i] = done.Count
				})
			}
			hands.Wait()
			if n := counts[0] + counts[1] + counts[2]; n != 3 {
				t.Errorf("%d letters were replayed, want 3", n)
			}
			p.awaitLetters(replication, 0)
			for query, want := range map[string]int{
				s.letters:                   0,
				"SELECT count(*) FROM m":    8,
				"SELECT count(*) FROM seen": 3,
				"SELECT count(DISTINCT v) FROM seen WHERE v IN ('text 0', 'text 1', 'text 2')": 3,
			} {
				if n := count(t, s.db, query); n != want {
					t.Errorf("%s: %d, want %d", query, n, want)
				}
			}
			if list := p.letters(replication, ""); list.DeadLetters == nil || len(list.DeadLetters) != 0 {
				t.Errorf("there are letters: %+v", list)
			}
			if lost := p.output(); !strings.Contains(lost, "dead letters dropped") {
				t.Error("the log does not tell of the letter that was dropped")
			}
		})
	}
}

// TestDeadLettersOfInfluxDB is the same with a real InfluxDB 1.x, whose letters are kept here.
func TestDeadLettersOfInfluxDB(t *testing.T) {
	t.Parallel()
	db := testenv.StartInfluxDB(t, nil)
	db.Query(t, "", "CREATE DATABASE d")
	p := launch(t, t.TempDir(), "--targetConn", db.URL()+"?db=d")
	_, _, replication := p.defaults()
	p.conflicts()
	p.awaitLetters(replication, 4)
	list := p.letters(replication, "").DeadLetters
	for i, l := range list {
		if want := fmt.Sprintf("m,k=b v=\"text %d\" %d", i, 2000+i); l.Payload != want || !strings.Contains(l.Reason, "field type conflict") {
			t.Errorf("letter %d is %+v, want %s", i, l, want)
		}
	}
	if status, text := p.api(http.MethodPost, "/api/v2/replications/"+replication+"/deadletters/replay", `{"all":true}`); status != http.StatusUnprocessableEntity || !strings.Contains(text, "field type conflict") {
		t.Errorf("replaying what still does not fit: %d %s", status, text)
	}
	p.awaitLetters(replication, 4)
	if list = p.letters(replication, "").DeadLetters; len(list) != 4 { // they have new reasons, and new ids
		t.Fatalf("the letters are %+v", list)
	}
	db.Query(t, "d", "DROP MEASUREMENT m")

	// Letters of a stream that is paused can be dropped, and wait to be replayed.
	p.must(http.MethodPost, "/api/v2/replications/"+replication+"/pause", "", nil)
	if n := p.handle(replication, "drop", fmt.Sprintf(`{"ids":[%d,999999]}`, list[0].ID)); n != 1 {
		t.Errorf("%d letters were dropped, want 1", n)
	}
	if status, text := p.api(http.MethodPost, "/api/v2/replications/"+replication+"/deadletters/replay", `{"all":true}`); status != http.StatusUnprocessableEntity || !strings.Contains(text, "resume") {
		t.Errorf("replaying while it is paused: %d %s", status, text)
	}
	p.must(http.MethodPost, "/api/v2/replications/"+replication+"/resume", "", nil)
	eventually(t, time.Minute, "it does not run again", func() bool { return p.replication(replication).State == "running" })
	if n := p.handle(replication, "replay", fmt.Sprintf(`{"ids":[%d]}`, list[1].ID)); n != 1 {
		t.Errorf("%d letters were replayed, want 1", n)
	}
	if n := p.handle(replication, "replay", `{"all":true}`); n != 2 {
		t.Errorf("%d letters were replayed, want 2", n)
	}
	p.awaitLetters(replication, 0)
	if got := fmt.Sprint(db.Query(t, "d", "SELECT v FROM m")[0].Values); got != "[[2001 text 1] [2002 text 2] [2003 text 3]]" {
		t.Errorf("in the remote: %s", got)
	}
}
