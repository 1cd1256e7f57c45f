package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/cmd/start"
)

// report is what the target holds, beside what was acknowledged.
type report struct {
	tables   []table
	accepted int   // points that were acknowledged
	distinct int   // different ones among them
	target   int64 // rows in the target
	letters  int64 // dead letters
	lost     int64 // declared lost by queue or loop
}

type table struct {
	name        string
	points      int64
	first, last time.Time
}

// label is the name without schema and quotes.
func (t *table) label() string {
	_, name, ok := strings.Cut(t.name, ".")
	if !ok {
		name = t.name
	}
	return strings.Trim(name, `"`)
}

// merged is how many acknowledged points had the key of another one.
func (r *report) merged() int { return r.accepted - r.distinct }

// missing is how many acknowledged points are nowhere.
func (r *report) missing() int64 {
	return int64(r.accepted) - r.target - int64(r.merged()) - r.letters - r.lost
}

// readBack asks the database itself, through a connection of its own.
func readBack(ctx context.Context, store *store, server *start.Server, c *client) (*report, error) {
	r := new(report)
	r.accepted, r.distinct = c.books()
	st := defaultStream(server)
	for _, total := range st.Queue.Lost {
		r.lost += total.Points
	}
	if err := r.read(ctx, store); err != nil {
		return nil, errors.Wrap(err, "the target cannot be read")
	}
	return r, nil
}

func (r *report) read(ctx context.Context, store *store) error {
	names, err := tables(ctx, store)
	if err != nil {
		return err
	}
	for _, name := range names {
		t := table{name: name}
		var first, last int64 // seconds
		row := store.db.QueryRowContext(ctx, fmt.Sprintf(store.count, name))
		if err := row.Scan(&t.points, &first, &last); err != nil {
			return err
		}
		t.first, t.last = time.Unix(first, 0), time.Unix(last, 0)
		r.target += t.points
		r.tables = append(r.tables, t)
	}
	return store.db.QueryRowContext(ctx, store.letters).Scan(&r.letters)
}

// tables returns the names of the measurements' tables.
func tables(ctx context.Context, store *store) (names []string, err error) {
	rows, err := store.db.QueryContext(ctx, store.tables)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err says what went wrong
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

func (r *report) print(w io.Writer) {
	const layout = "2006-01-02 15:04:05"
	_, _ = fmt.Fprintf(w, "\nRead back from the target with SQL:\n\n  %-16s %9s   %-19s   %-19s\n", "table", "points", "first", "last")
	for _, t := range r.tables {
		_, _ = fmt.Fprintf(w, "  %-16s %9d   %-19s   %-19s\n", t.label(), t.points, t.first.Format(layout), t.last.Format(layout))
	}
	_, _ = fmt.Fprintf(w, `
  points accepted:  %d
  points in target: %d  (different keys; merged: %d, dead letters: %d)
  lost: %d
`, r.accepted, r.target, r.merged(), r.letters, r.lost+r.missing())
}

// verdict is an error if an acknowledged point is nowhere, or something is there that nobody sent.
func (r *report) verdict() error {
	if n := r.missing(); n != 0 {
		return errors.Errorf("accepted %d points, but target + merged + dead letters + declared lost are %d", r.accepted, int64(r.accepted)-n)
	}
	return nil
}
