package fan

import (
	"sync"

	"github.com/tailrace-cdc/tailrace/logical"
)

// maxUnions bounds how many pairs of shapes are remembered. Beyond it all are forgotten, and what is
// still in use is made anew: a target then plans for it once more.
const maxUnions = 1024

// Unions remembers the unions of the shapes of measurements, so that one pair has always the same
// Relation. It may be used concurrently.
type Unions struct {
	mu   sync.Mutex
	pair map[[2]*logical.Relation]union
}

// A union of two relations: its columns are those of the first, and then what the second has
// besides. If it is one of the two, that has all columns of the other. It has no relation if the two
// cannot be united.
type union struct {
	relation      *logical.Relation
	first, second []int // where the columns of each stand in it
}

// NewUnions returns an empty memory.
func NewUnions() *Unions { return &Unions{pair: map[[2]*logical.Relation]union{}} }

// of returns the union of two different relations of one table.
func (u *Unions) of(a, b *logical.Relation) union {
	if !a.Points || !b.Points {
		return union{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if found, ok := u.pair[[2]*logical.Relation{a, b}]; ok {
		return found
	}
	if len(u.pair) >= maxUnions {
		clear(u.pair)
	}
	var made union
	if other, ok := u.pair[[2]*logical.Relation{b, a}]; ok {
		made = union{relation: other.relation, first: other.second, second: other.first}
	} else {
		made = unite(a, b)
	}
	u.pair[[2]*logical.Relation{a, b}] = made
	return made
}

// unite makes the union of two relations.
func unite(a, b *logical.Relation) union {
	type id struct {
		name string
		role logical.Role
	}
	columns := make([]logical.Column, 0, len(a.Columns)+len(b.Columns))
	at := make(map[id]int, cap(columns))
	place := func(r *logical.Relation) []int {
		where := make([]int, len(r.Columns))
		for i, c := range r.Columns {
			n, ok := at[id{c.Name, c.Role}]
			if !ok {
				n = len(columns)
				at[id{c.Name, c.Role}] = n
				columns = append(columns, c)
			} else if columns[n] != c {
				return nil
			}
			where[i] = n
		}
		return where
	}
	first, second := place(a), place(b)
	switch {
	case first == nil || second == nil:
		return union{}
	case len(columns) == len(a.Columns):
		return union{relation: a, first: first, second: second}
	case len(columns) == len(b.Columns):
		// All of a's columns are in b, in an order of its own.
		for i := range first {
			for j, n := range second {
				if n == i {
					first[i] = j
					break
				}
			}
		}
		for j := range second {
			second[j] = j
		}
		return union{relation: b, first: first, second: second}
	}
	return union{
		relation: &logical.Relation{Schema: a.Schema, Name: a.Name, Columns: columns, Points: true},
		first:    first, second: second,
	}
}
