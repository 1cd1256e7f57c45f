package sqlite

import (
	"context"

	"github.com/ncruces/go-sqlite3"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
)

// A Measurement is a table of points that Tailrace made.
type Measurement struct {
	// Schema and Name are the source's.
	Schema, Name string
	// Table is the name of the table in the file.
	Table string
	// Points is how many rows it has: the number of different keys that arrived.
	Points int64
}

// Measurements counts the points of every measurement, at one instant. It reads beside the writer,
// and keeps nobody from writing.
func (t *Target) Measurements(ctx context.Context) ([]Measurement, error) {
	var list []Measurement
	err := t.read(ctx, func(r *writer) error {
		err := r.query("SELECT schema_name, name, target FROM _tailrace_tables ORDER BY schema_name, name", func(s *sqlite3.Stmt) error {
			list = append(list, Measurement{Schema: s.ColumnText(0), Name: s.ColumnText(1), Table: s.ColumnText(2)})
			return nil
		})
		if err != nil {
			return err
		}
		for i := range list {
			err := r.query("SELECT count(*) FROM "+ident.Quote(list[i].Table), func(s *sqlite3.Stmt) error {
				list[i].Points = s.ColumnInt64(0)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

// read runs fn on a connection of its own, in a transaction that reads.
func (t *Target) read(ctx context.Context, fn func(r *writer) error) error {
	select {
	case <-t.closed:
		return errClosed()
	default:
	}
	r := newWriter(t.cfg)
	db, err := sqlite3.OpenFlags(t.cfg.Path, sqlite3.OPEN_READWRITE)
	if err != nil {
		return r.classify(err, "open for reading")
	}
	r.db, r.control = db, map[string]*sqlite3.Stmt{}
	defer func() { _ = r.close() }() // Nothing was written.
	db.SetInterrupt(ctx)
	if err := db.BusyTimeout(t.cfg.BusyTimeout); err != nil {
		return r.classify(err, "open for reading")
	}
	for _, sql := range []string{"PRAGMA query_only=ON", "BEGIN"} {
		if err := r.exec(sql); err != nil {
			return err
		}
	}
	return fn(r)
}
