package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
)

// wantRetry checks that an error may heal and tells an operator what to do.
func wantRetry(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	if err == nil || logical.ClassOf(err) != logical.ClassRetry || logical.HintOf(err) == "" {
		t.Errorf("%s: got %v, class %v, hint %q", what, err, logical.ClassOf(err), logical.HintOf(err))
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q does not say %q", what, err, part)
		}
	}
}

func onePoint(at, v int64) logical.Mutation {
	return point(points("m", nil, field("v", logical.KindInt64)), at, 1, logical.Int64(v))
}

func TestFileLockedByAnotherProgram(t *testing.T) {
	t.Parallel()
	target := open(t, Config{BusyTimeout: 50 * time.Millisecond})
	s := take(t, target, "loop", "me")
	apply(t, s, onePoint(1, 1))
	db, err := sqlite3.Open(target.cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	wantRetry(t, "a lock", tryApply(t.Context(), s, onePoint(2, 2)), "lock", target.cfg.Path)
	if err := db.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	apply(t, s, onePoint(2, 2))
}

func TestFileThatIsNoDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "target.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database. ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	target := open(t, Config{Path: path})
	_, err := target.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "me"})
	wantRetry(t, "no database", err, "no SQLite database", path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	apply(t, take(t, target, "loop", "me"), onePoint(1, 1))
}

func TestDirectoryThatDoesNotExist(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nowhere")
	target := open(t, Config{Path: filepath.Join(dir, "target.db")})
	_, err := target.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "me"})
	wantRetry(t, "no directory", err, "directory", dir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	apply(t, take(t, target, "loop", "me"), onePoint(1, 1))
}

func TestDamagedFile(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	var muts []logical.Mutation
	for i := range int64(2000) {
		muts = append(muts, onePoint(i, i))
	}
	apply(t, s, muts...)
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(target.cfg.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	junk := []byte(strings.Repeat("\xde\xad", 2048))
	for at := int64(4096); at < info.Size(); at += 4096 { // all but the first page
		if _, err := file.WriteAt(junk, at); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, Config{Path: target.cfg.Path})
	_, err = again.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "me"})
	wantRetry(t, "a damaged file", err, "damaged", target.cfg.Path)
}

// SQLite would go on writing to a file that has no name any more.
func TestFileReplacedWhileInUse(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	apply(t, s, onePoint(1, 1))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(target.cfg.Path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	err := tryApply(t.Context(), s, onePoint(2, 2))
	if logical.ClassOf(err) != logical.ClassFenced {
		t.Errorf("writing to a new file under an epoch of the old one: %v", err)
	}
	s = take(t, target, "loop", "me")
	if state, err := s.LoadMemo(t.Context()); err != nil || state.Point != nil {
		t.Errorf("the new file has the memo %s, error %v", state.Point, err)
	}
	apply(t, s, onePoint(2, 2))
	if got := rows(t, target, "SELECT v FROM m"); len(got) != 1 || got[0][0] != "INTEGER:2" {
		t.Errorf("the new file holds %v", got)
	}
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	disk := testenv.NewSmallDisk(t, 3, 20)
	target := open(t, Config{Path: filepath.Join(disk.Dir, "target.db"), CheckpointPages: 100})
	s := take(t, target, "loop", "me")
	rel := points("m", nil, field("v", logical.KindText))
	text := logical.Text(strings.Repeat("x", 10_000))
	write := func(i int64) error {
		ctx := context.Background()
		tx, err := s.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		if err := tx.Apply(ctx, []logical.Mutation{point(rel, i, 1, text)}); err != nil {
			return err
		}
		if err := tx.SetMemo(ctx, logical.MemoState{Point: json.RawMessage(fmt.Sprint(i))}); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	var err error
	i := int64(0)
	for ; err == nil && i < 10_000; i++ {
		err = write(i)
	}
	if class := logical.ClassOf(err); class != logical.ClassRetry && class != logical.ClassUnknownCommit || !strings.Contains(err.Error(), "free space") {
		t.Errorf("a full disk: %v, class %v", err, class)
	}
	disk.Free(t)
	if err := s.Fence(t.Context()); err != nil {
		t.Fatalf("it does not heal: %v", err)
	}
	state, err := s.LoadMemo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := rows(t, target, "SELECT max(time), count(*) FROM m"); got[0][0] != "INTEGER:"+string(state.Point) || got[0][1] != fmt.Sprintf("INTEGER:%s", fmt.Sprint(mustInt(t, state.Point)+1)) {
		t.Errorf("the memo is %s, the last row and their number %v", state.Point, got)
	}
	for k := mustInt(t, state.Point) + 1; k <= i+20; k++ {
		if err := write(k); err != nil {
			t.Fatalf("it does not heal: %v", err)
		}
	}
}

func mustInt(t *testing.T, text json.RawMessage) (n int64) {
	t.Helper()
	if err := json.Unmarshal(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestReadOnlyFile(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Log("root may write to any file; the error is tried through its code")
		class, hint, broken := classOf(sqlite3.READONLY, 0)
		if class != logical.ClassRetry || !strings.Contains(hint, "writable") || !broken {
			t.Errorf("got %v, %q, %v", class, hint, broken)
		}
		return
	}
	target := open(t, Config{})
	apply(t, take(t, target, "loop", "me"), onePoint(1, 1))
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(target.cfg.Path, 0o400); err != nil {
		t.Fatal(err)
	}
	again := open(t, Config{Path: target.cfg.Path})
	_, err := again.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "me"})
	wantRetry(t, "a read-only file", err, "writable")
}

func TestSchemaChangedUnderneath(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	apply(t, s, onePoint(1, 1))
	exec(t, target, "DROP TABLE m")
	apply(t, s, onePoint(2, 2)) // made again
	exec(t, target, `ALTER TABLE m RENAME COLUMN v TO w`)
	apply(t, s, onePoint(3, 3)) // added again
	if got := rows(t, target, "SELECT time, w, v FROM m ORDER BY time"); fmt.Sprint(got) != "[[INTEGER:2 INTEGER:2 NULL] [INTEGER:3 NULL INTEGER:3]]" {
		t.Errorf("got %v", got)
	}
}

func TestWaitingForTheWriterEndsWithTheContext(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	a, b := take(t, target, "a", "me"), take(t, target, "b", "me")
	apply(t, a, onePoint(1, 1))
	tx, err := a.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if err := tx.Apply(t.Context(), []logical.Mutation{onePoint(2, 2)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := tryApply(ctx, b, onePoint(3, 3)); !isContextError(err) {
		t.Errorf("got %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	apply(t, b, onePoint(3, 3))
}
