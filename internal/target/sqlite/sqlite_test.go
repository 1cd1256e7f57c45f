package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a target on a new file.
func open(t testing.TB, cfg Config) *Target {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "target.db")
	}
	target, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return target
}

// take takes a loop over, for the time of the test.
func take(t *testing.T, target *Target, loop, holder string) logical.Session {
	t.Helper()
	s, err := target.Take(t.Context(), logical.Claim{Loop: loop, Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Release(context.Background()) })
	return s
}

// apply applies mutations in a transaction of their own.
func apply(t *testing.T, s logical.Session, muts ...logical.Mutation) {
	t.Helper()
	if err := tryApply(t.Context(), s, muts...); err != nil {
		t.Fatal(err)
	}
}

func tryApply(ctx context.Context, s logical.Session, muts ...logical.Mutation) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if err := tx.Apply(ctx, muts); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// rows reads a query's result as text, through a connection of its own.
func rows(t *testing.T, target *Target, sql string) [][]string {
	t.Helper()
	var result [][]string
	err := target.read(t.Context(), func(r *writer) error {
		return r.query(sql, func(s *sqlite3.Stmt) error {
			row := make([]string, s.ColumnCount())
			for i := range row {
				row[i] = "NULL"
				if s.ColumnType(i) != sqlite3.NULL {
					row[i] = s.ColumnType(i).String() + ":" + s.ColumnText(i)
				}
			}
			result = append(result, row)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// exec changes the file behind the target's back.
func exec(t *testing.T, target *Target, sql string) {
	t.Helper()
	db, err := sqlite3.Open(target.cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Exec(sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// cpu is a measurement of one tag and the given fields.
func cpu(fields ...logical.Column) *logical.Relation {
	return points("cpu", []string{"host"}, fields...)
}

func points(name string, tags []string, fields ...logical.Column) *logical.Relation {
	rel := &logical.Relation{Name: name, Points: true, Columns: []logical.Column{
		{Name: "time", Kind: logical.KindTime, Key: true, Role: logical.RoleTime},
		{Name: "series", Kind: logical.KindUUID, Key: true, Role: logical.RoleSeries},
	}}
	for _, tag := range tags {
		rel.Columns = append(rel.Columns, logical.Column{Name: tag, Kind: logical.KindText, Role: logical.RoleTag})
	}
	rel.Columns = append(rel.Columns, fields...)
	return rel
}

func field(name string, kind logical.Kind) logical.Column {
	return logical.Column{Name: name, Kind: kind, Role: logical.RoleField}
}

// point is a patch; the series is made of the first byte.
func point(rel *logical.Relation, ns int64, series byte, values ...logical.Value) logical.Mutation {
	id := [16]byte{series}
	return logical.Mutation{
		Op: logical.OpPatch, Relation: rel,
		Values: append([]logical.Value{logical.UnixNano(ns), logical.UUID(&id)}, values...),
	}
}
