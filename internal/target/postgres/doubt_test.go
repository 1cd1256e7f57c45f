package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestColumnThatWasWidenedTakesTheNextValue: what was too large is not any more, and is not set aside.
func TestColumnThatWasWidenedTakesTheNextValue(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	exec(t, target, "CREATE TABLE w (k bigint PRIMARY KEY, v int, t varchar(3))")
	rel := logicaltest.Table("w", logical.Column{Name: "k", Kind: logical.KindInt64}, logical.Column{Name: "v", Kind: logical.KindInt64}, logical.Column{Name: "t", Kind: logical.KindText})
	i, x := logical.Int64, logical.Text
	if err := logicaltest.Apply(t.Context(), s, mutate(logical.OpUpsert, rel, i(1), i(1), x("abc"))); err != nil {
		t.Fatal(err)
	}
	exec(t, target, "ALTER TABLE w ALTER v TYPE bigint, ALTER t TYPE text")
	if err := logicaltest.Apply(t.Context(), s, mutate(logical.OpUpsert, rel, i(2), i(1<<40), x("abcd"))); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, target, "SELECT v, t FROM w WHERE k = 2"); fmt.Sprint(got) != "[[1099511627776 abcd]]" {
		t.Errorf("got %v", got)
	}
	exec(t, target, "DELETE FROM w; ALTER TABLE w ALTER v TYPE int")
	until(t, func() bool { // what is too large now is refused, in the end
		return logical.ClassOf(logicaltest.Apply(t.Context(), s, mutate(logical.OpUpsert, rel, i(2), i(1<<40), x("abcd")))) == logical.ClassReject
	})
}

// TestNothingSilentWhereTheColumnIsThereNow: values were left out for want of a column; when it is there, they are not.
func TestNothingSilentWhereTheColumnIsThereNow(t *testing.T) {
	t.Parallel()
	target := open(t, Config{IgnoreMissingColumns: true})
	s := take(t, target, "loop", "me")
	exec(t, target, `CREATE TABLE w (k bigint PRIMARY KEY); CREATE TABLE m ("time" timestamptz, nanos smallint, series uuid, PRIMARY KEY ("time", series, nanos))`)
	table := logicaltest.Table("w", logical.Column{Name: "k", Kind: logical.KindInt64}, logical.Column{Name: "v", Kind: logical.KindInt64})
	point := logicaltest.Points("m", nil, logicaltest.Field("v", logical.KindInt64))
	i := logical.Int64
	apply := func(k int64) {
		t.Helper()
		if err := logicaltest.Apply(t.Context(), s, mutate(logical.OpUpsert, table, i(k), i(1)), logicaltest.Point(point, k, 1, i(1))); err != nil {
			t.Fatal(err)
		}
	}
	apply(1)
	if n := target.cfg.Tally.Ignored.Load(); n != 2 {
		t.Errorf("%d values are counted as left out, want 2", n)
	}
	exec(t, target, "ALTER TABLE w ADD v bigint; ALTER TABLE m ADD v bigint")
	k := int64(1)
	until(t, func() bool {
		k++
		apply(k)
		return rows(t, target, "SELECT (SELECT count(*) FROM w WHERE v = 1) > 0 AND (SELECT count(*) FROM m WHERE v = 1) > 0")[0][0] == "t"
	})
	left := rows(t, target, "SELECT (SELECT count(*) FROM w WHERE v IS NULL) + (SELECT count(*) FROM m WHERE v IS NULL)")[0][0]
	if n := target.cfg.Tally.Ignored.Load(); fmt.Sprint(n) != left {
		t.Errorf("%d values are counted as left out, and %s are", n, left)
	}
}

// TestOrderUnderAConstraintThatIsNew: a unique index or a foreign key is made while Tailrace runs. Rows that satisfy it
// in the source's order are applied, and not set aside because a batch has another one.
func TestOrderUnderAConstraintThatIsNew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ ddl, want string }{
		"unique index": {"CREATE UNIQUE INDEX ON u (email)", "[[1 b] [2 a]]"},
		"exclusion":    {"ALTER TABLE u ADD EXCLUDE USING btree (email WITH =)", "[[1 b] [2 a]]"},
	} {
		for _, copyRows := range []int{1, 1000} {
			t.Run(fmt.Sprint(name, " ", copyRows), func(t *testing.T) {
				t.Parallel()
				target := open(t, Config{copyRows: copyRows})
				s := take(t, target, "loop", "me")
				exec(t, target, "CREATE TABLE u (k bigint PRIMARY KEY, email text)")
				rel := userRelation()
				i, x := logical.Int64, logical.Text
				if err := logicaltest.Apply(t.Context(), s, mutate(logical.OpUpsert, rel, i(1), x("a")), mutate(logical.OpUpsert, rel, i(2), x("b"))); err != nil {
					t.Fatal(err)
				}
				exec(t, target, c.ddl)
				swap := func() error {
					return logicaltest.Apply(t.Context(), s, mutate(logical.OpPatch, rel, i(1), x("tmp")), mutate(logical.OpPatch, rel, i(2), x("a")), mutate(logical.OpPatch, rel, i(1), x("b")))
				}
				if err := swap(); err != nil && (logical.ClassOf(err) != logical.ClassRetry || !strings.Contains(err.Error(), "has changed")) {
					t.Fatalf("class %v: %v", logical.ClassOf(err), err)
				}
				if err := swap(); err != nil {
					t.Fatalf("class %v: %v", logical.ClassOf(err), err)
				}
				if got := rows(t, target, "SELECT k, email FROM u ORDER BY k"); fmt.Sprint(got) != c.want {
					t.Errorf("got %v", got)
				}
			})
		}
	}
}
