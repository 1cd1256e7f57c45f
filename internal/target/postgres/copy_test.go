package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestCopyLooksAgainAfterItsLockWasGivenBack: the fall-back from a batch to its single rows gives up the lock under
// which the columns were compared, and somebody alters the table at that instant. COPY's binary form of one type would
// be read as another without an error.
func TestCopyLooksAgainAfterItsLockWasGivenBack(t *testing.T) {
	t.Parallel()
	target := open(t, Config{copyRows: 2})
	s := take(t, target, "loop", "me")
	exec(t, target, `CREATE TABLE u (k bigint PRIMARY KEY, email text UNIQUE, v bigint);
INSERT INTO u VALUES (1, 'a', 1), (2, 'b', 1);
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	WHILE NEW.k < 3 AND (SELECT atttypid FROM pg_attribute WHERE attrelid = 'u'::regclass AND attname = 'v') = 'bigint'::regtype
		AND NOT EXISTS (SELECT 1 FROM pg_locks WHERE relation = 'u'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted) LOOP
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN NEW;
END $$;
CREATE TRIGGER wait BEFORE INSERT ON u FOR EACH ROW EXECUTE FUNCTION wait()`)
	rel := logicaltest.Table("u", append(userRelation().Columns, logical.Column{Name: "v", Kind: logical.KindInt64})...)
	i, x := logical.Int64, logical.Text
	up := func(k int64, email string) logical.Mutation {
		return mutate(logical.OpUpsert, rel, i(k), x(email), i(7))
	}
	altered := make(chan error, 1)
	conn := connect(t, target)
	go func() {
		for granted := 0; granted == 0; { // the batch has its lock
			err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE relation = 'u'::regclass AND mode = 'RowExclusiveLock' AND granted").Scan(&granted)
			if err != nil {
				altered <- err
				return
			}
		}
		_, err := conn.Exec(t.Context(), "ALTER TABLE u ALTER v TYPE double precision")
		altered <- err
	}()
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }() // below, if all goes well
	if err := tx.Apply(t.Context(), []logical.Mutation{up(1, "tmp"), up(2, "a"), up(1, "b")}); err != nil {
		t.Fatal(err)
	}
	if err := <-altered; err != nil {
		t.Fatal(err)
	}
	for k := int64(10); err == nil && k < 20; k += 2 { // some batches after one that failed are not copied
		err = tx.Apply(t.Context(), []logical.Mutation{up(k, fmt.Sprint(k)), up(k+1, fmt.Sprint(k+1))})
	}
	if err == nil || !strings.Contains(err.Error(), "were changed") {
		t.Errorf("rows of other columns are copied: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := logicaltest.Apply(t.Context(), s, up(1, "tmp"), up(2, "a"), up(1, "b"), up(10, "c"), up(11, "d")); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, target, "SELECT k, v FROM u ORDER BY k"); fmt.Sprint(got) != "[[1 7] [2 7] [10 7] [11 7]]" {
		t.Errorf("got %v", got)
	}
}

// TestCopyTakesAnyNameOfAColumn: whatever can be a name is none of the marks by which names are told from each other.
func TestCopyTakesAnyNameOfAColumn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a\x01b", "\x01", "a,b", "{", "}", `"`, `\`, "NULL", " ", "a 20,b", "'", "é\n"} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			t.Parallel()
			target := open(t, Config{copyRows: 2})
			s := take(t, target, "loop", "me")
			rel := logicaltest.Points("m", []string{"host"}, logicaltest.Field(name, logical.KindInt64))
			at := func(ns int64) logical.Mutation {
				return logicaltest.Point(rel, ns, 1, logical.Text("h"), logical.Int64(ns))
			}
			if err := logicaltest.Apply(t.Context(), s, at(1000), at(2000), at(3000)); err != nil {
				t.Fatal(err)
			}
			if got := rows(t, target, "SELECT count(*) FROM m"); fmt.Sprint(got) != "[[3]]" {
				t.Errorf("got %v rows", got)
			}
		})
	}
}

// TestRowThatCopyNamesIsTheOneOfItsLine: a table's name is no part of the place.
func TestRowThatCopyNamesIsTheOneOfItsLine(t *testing.T) {
	t.Parallel()
	target := open(t, Config{copyRows: 2})
	s := take(t, target, "loop", "me")
	i, x := logical.Int64, logical.Text
	for _, name := range []string{"a, line 1", "u", "COPY u, line 1", `"`} {
		exec(t, target, fmt.Sprintf(`CREATE TABLE "%s" (k bigint PRIMARY KEY, email text CHECK (email <> 'bad'))`, strings.ReplaceAll(name, `"`, `""`)))
		rel := logicaltest.Table(name, userRelation().Columns...)
		err := logicaltest.Apply(t.Context(), s, mutate(logical.OpUpsert, rel, i(1), x("ok")), mutate(logical.OpUpsert, rel, i(2), x("bad")), mutate(logical.OpUpsert, rel, i(3), x("ok")))
		if fmt.Sprint(rejectedAt(err)) != "[1]" {
			t.Errorf("%s: rejected %v: %v", name, rejectedAt(err), err)
		}
	}
}
