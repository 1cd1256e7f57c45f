package sqlite

import (
	"fmt"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

// TestOrderWhereRowsReferToOthers: foreign keys have no effect on what is applied, whatever they say; the source's
// own changes of the rows that refer to others come by themselves.
func TestOrderWhereRowsReferToOthers(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	exec(t, target, `CREATE TABLE parent (k INTEGER PRIMARY KEY, n INTEGER);
CREATE TABLE child (k INTEGER PRIMARY KEY, p INTEGER REFERENCES parent ON DELETE CASCADE);
INSERT INTO parent VALUES (1, 0); INSERT INTO child VALUES (1, 1), (2, 1)`)
	columns := func(second string) []logical.Column {
		return []logical.Column{{Name: "k", Kind: logical.KindInt64, Key: true}, {Name: second, Kind: logical.KindInt64}}
	}
	parent, child := &logical.Relation{Name: "parent", Columns: columns("n")}, &logical.Relation{Name: "child", Columns: columns("p")}
	i := logical.Int64
	apply(t, s,
		logical.Mutation{Op: logical.OpUpsert, Relation: child, Values: []logical.Value{i(3), i(2)}}, // its parent comes later
		logical.Mutation{Op: logical.OpUpsert, Relation: parent, Values: []logical.Value{i(2), i(0)}},
		logical.Mutation{Op: logical.OpPatch, Relation: child, Values: []logical.Value{i(1), i(2)}},
		logical.Mutation{Op: logical.OpDelete, Relation: parent, Values: []logical.Value{i(1), {}}})
	if got := rows(t, target, "SELECT k, p FROM child ORDER BY k"); fmt.Sprint(got) != "[[INTEGER:1 INTEGER:2] [INTEGER:2 INTEGER:1] [INTEGER:3 INTEGER:2]]" {
		t.Errorf("the rows that refer to others are %v", got)
	}
}
