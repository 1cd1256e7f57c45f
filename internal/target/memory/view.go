package memory

import (
	"context"
	"slices"
	"strings"

	"github.com/cockroachdb/apd/v3"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A view is what a transaction sees where it differs from what is committed.
type view struct {
	rows      map[string]change
	owners    map[ownerID]string // of unique values; "" where the value is free
	truncated map[*table]bool
	raw       []rawLine
}

type change struct {
	table *table
	row   []logical.Value // nil if it was deleted
}

type ownerID struct {
	unique *unique
	value  string
}

type rawLine struct {
	table *table
	line  []byte
}

// apply does what one mutation says. Callers hold mu, which is released while a lock is waited for.
func (x *tx) apply(ctx context.Context, m *logical.Mutation) error {
	t := x.session.target
	if t.cfg.Reject != nil {
		if err := t.cfg.Reject(m); err != nil {
			if logical.ClassOf(err) == logical.ClassRetry {
				err = classed(logical.ClassReject, err)
			}
			return err
		}
	}
	tab := t.table(m.Relation)
	if err := x.lock(ctx, "table "+tab.name, m.Op == logical.OpTruncate); err != nil {
		return err
	}
	if err := x.change(ctx, tab, m); err != nil {
		return err
	}
	if t.cfg.Record || t.cfg.Observe != nil {
		x.applied = append(x.applied, cloneMutation(m))
	}
	return nil
}

func (x *tx) change(ctx context.Context, tab *table, m *logical.Mutation) error {
	switch {
	case m.Op == logical.OpTruncate:
		x.truncate(tab)
		return nil
	case m.Values == nil:
		x.raw = append(x.raw, rawLine{tab, slices.Clone(m.Raw)})
		return nil
	}
	plan, err := tab.plan(m.Relation)
	if err != nil {
		return err
	}
	key := string(m.AppendKey(nil))
	if err := x.lock(ctx, "row "+key, true); err != nil {
		return err
	}
	old := x.get(tab, key)
	switch m.Op {
	case logical.OpUpsert:
		return x.put(ctx, tab, key, tab.fill(old, plan, m.Values))
	case logical.OpPatch:
		if old == nil && !m.Relation.Points {
			return nil
		}
		return x.put(ctx, tab, key, tab.fill(old, plan, m.Values))
	case logical.OpReplace:
		return x.put(ctx, tab, key, tab.fill(nil, plan, m.Values))
	case logical.OpFill:
		return x.put(ctx, tab, key, tab.fill(old, plan, lacking(old, plan, m.Values)))
	case logical.OpDelete:
		return x.put(ctx, tab, key, nil)
	case logical.OpRekey:
		return x.rekey(ctx, tab, m, plan, key)
	}
	return classed(logical.ClassReject, errors.Errorf("memory: operation %s is unknown", m.Op))
}

// rekey moves a row to another key. A row that stands there already is left over from before a crash
// and gives way. If the row has moved already, what stands at the new key is brought up to date.
func (x *tx) rekey(ctx context.Context, tab *table, m *logical.Mutation, plan []int, key string) error {
	was := logical.Mutation{Relation: m.Relation, Values: slices.Clone(m.Values)}
	for i, at := range m.Relation.KeyColumns() {
		was.Values[at] = m.OldKey[i]
	}
	oldKey := string(was.AppendKey(nil))
	if err := x.lock(ctx, "row "+oldKey, true); err != nil {
		return err
	}
	row := x.get(tab, oldKey)
	if row == nil {
		if row = x.get(tab, key); row == nil {
			return nil
		}
	}
	if oldKey != key {
		if err := x.put(ctx, tab, oldKey, nil); err != nil {
			return err
		}
	}
	return x.put(ctx, tab, key, tab.fill(row, plan, m.Values))
}

// get returns the row that the transaction sees, or nil.
func (x *tx) get(tab *table, key string) []logical.Value {
	if c, ok := x.rows[key]; ok {
		return c.row
	}
	if x.truncated[tab] {
		return nil
	}
	return tab.rows[key]
}

// put gives the transaction's view a new row, or none if row is nil.
func (x *tx) put(ctx context.Context, tab *table, key string, row []logical.Value) error {
	old := x.get(tab, key)
	for _, u := range tab.unique {
		if err := x.own(ctx, tab, u, key, u.valueOf(tab, old), u.valueOf(tab, row)); err != nil {
			return err
		}
	}
	if x.rows == nil {
		x.rows = map[string]change{}
	}
	x.rows[key] = change{tab, row}
	return nil
}

// own lets the row at key give up one unique value and take another.
func (x *tx) own(ctx context.Context, tab *table, u *unique, key, old, value string) error {
	if old == value {
		return nil
	}
	for _, v := range []string{old, value} {
		if v == "" {
			continue
		}
		if err := x.lock(ctx, "unique "+v, true); err != nil {
			return err
		}
	}
	if x.owners == nil {
		x.owners = map[ownerID]string{}
	}
	if value != "" {
		owner, ok := x.owners[ownerID{u, value}]
		if !ok && !x.truncated[tab] {
			owner = u.owner[value]
		}
		if owner != "" && owner != key {
			return classed(logical.ClassConstraint, errors.Errorf(
				"memory: another row of %s has the same %s", tab.name, strings.Join(u.columns, ", ")))
		}
		x.owners[ownerID{u, value}] = key
	}
	if old != "" {
		x.owners[ownerID{u, old}] = ""
	}
	return nil
}

func (x *tx) truncate(tab *table) {
	if x.truncated == nil {
		x.truncated = map[*table]bool{}
	}
	x.truncated[tab] = true
	for key, c := range x.rows {
		if c.table == tab {
			delete(x.rows, key)
		}
	}
	for _, u := range tab.unique {
		for id := range x.owners {
			if id.unique == u {
				delete(x.owners, id)
			}
		}
	}
	x.raw = slices.DeleteFunc(x.raw, func(r rawLine) bool { return r.table == tab })
}

// publish makes the view what is committed. Callers hold mu.
func (x *tx) publish() {
	for tab := range x.truncated {
		clear(tab.rows)
		tab.raw = nil
		for _, u := range tab.unique {
			clear(u.owner)
		}
	}
	for key, c := range x.rows {
		if c.row == nil {
			delete(c.table.rows, key)
		} else {
			c.table.rows[key] = c.row
		}
	}
	for id, key := range x.owners {
		if key == "" {
			delete(id.unique.owner, id.value)
		} else {
			id.unique.owner[id.value] = key
		}
	}
	for _, r := range x.raw {
		r.table.raw = append(r.table.raw, r.line)
	}
}

// clone returns a value that shares no memory with v.
func clone(v logical.Value) logical.Value {
	switch v.Kind() {
	case logical.KindText:
		return logical.Text(strings.Clone(v.Text()))
	case logical.KindJSON:
		return logical.JSON(strings.Clone(v.Text()))
	case logical.KindBytes:
		return logical.Bytes(slices.Clone(v.Bytes()))
	case logical.KindUUID:
		id := [16]byte(v.Bytes())
		return logical.UUID(&id)
	case logical.KindDecimal:
		return logical.Decimal(new(apd.Decimal).Set(v.Decimal()))
	}
	return v
}

func cloneMutation(m *logical.Mutation) logical.Mutation {
	c := *m
	c.Values, c.OldKey, c.Raw = slices.Clone(m.Values), slices.Clone(m.OldKey), slices.Clone(m.Raw)
	for i, v := range c.Values {
		c.Values[i] = clone(v)
	}
	for i, v := range c.OldKey {
		c.OldKey[i] = clone(v)
	}
	return c
}
