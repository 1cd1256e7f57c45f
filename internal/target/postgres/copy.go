package postgres

import (
	"context"
	"encoding/binary"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// minCopyRows is from how many rows on a COPY gains more than its two more round trips cost: some 5 ms.
const minCopyRows = 1000

// A copyState remembers whether rows that came lately were new. COPY knows no ON CONFLICT: one row
// that is there already makes it fail as a whole.
type copyState struct {
	mu      sync.Mutex
	penalty int // how many batches were to go another way after the last failure
	skip    int // how many of them are left
}

// worthwhile reports whether the next batch should be copied.
func (s *copyState) worthwhile() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skip > 0 {
		s.skip--
		return false
	}
	return true
}

// note says how it went. Failures in a row make the next try ever later, and a success forgives
// half.
func (s *copyState) note(ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok {
		s.penalty /= 2
		return
	}
	s.penalty = min(2*s.penalty+1, 1023)
	s.skip = s.penalty
}

// copySQL returns the COPY for rows that a verb inserts; "" if they cannot be copied.
func (p *plan) copySQL(v verb, mask []byte) string {
	if !p.table.copyable || v != verbUpsert && v != verbSparse && v != verbFill && v != verbInsert {
		return ""
	}
	var names []byte
	for at, w := range mask {
		switch {
		case w == 0:
			continue
		case wire(w-1) == wireCast:
			return "" // its binary form is not known
		case len(names) > 0:
			names = append(names, ", "...)
		}
		names = ident.AppendQuoted(names, p.table.columns[at].name)
	}
	return "COPY " + p.table.quoted + " (" + string(names) + ") FROM STDIN (FORMAT binary)"
}

// tryCopy copies entries straight into the table, and reports whether it did: not if they are few, or
// if some of them are there already.
func (x *tx) tryCopy(ctx context.Context, b *batch, muts []logical.Mutation, entries []entry, g *groupSQL) (bool, error) {
	if g.copy == "" || len(entries) < x.s.t.cfg.copyRows {
		return false, nil
	}
	if !b.table.copies.worthwhile() {
		return x.tryMerge(ctx, b, muts, entries, g)
	}
	if err := x.beforeCopy(ctx, b.table); err != nil {
		return false, err
	}
	rows := &copyReader{b: b, w: x.w, muts: muts, entries: entries, columns: g.columns, buf: append(x.w.copyBuf[:0], copyHead...)}
	_, err := x.conn.Conn().PgConn().CopyFrom(ctx, rows, g.copy)
	x.w.copyBuf = rows.buf
	if code := sqlState(err); code == "23505" || code == "23P01" {
		b.table.copies.note(false)
		x.w.add(statement{sql: "ROLLBACK TO SAVEPOINT copy", what: "savepoint"})
		x.w.add(statement{sql: "RELEASE SAVEPOINT copy", what: "savepoint"})
		return x.tryMerge(ctx, b, muts, entries, g)
	}
	if err != nil {
		return false, x.explainCopy(ctx, err, b.table.name.name, b, entries)
	}
	b.table.copies.note(true)
	x.w.add(statement{sql: "RELEASE SAVEPOINT copy", what: "savepoint"})
	return true, nil
}

// beforeCopy sends what waits, and makes sure that the table has the columns that are known: the
// binary form of one type may be read as another without an error. Columns that were added meanwhile
// do no harm.
func (x *tx) beforeCopy(ctx context.Context, t *table) error {
	if !slices.Contains(x.copied, t) {
		x.w.add(statement{sql: "LOCK TABLE " + t.quoted + " IN ROW EXCLUSIVE MODE", what: "lock " + t.quoted, table: t})
		x.w.add(statement{
			sql: `SELECT 1 / (CASE WHEN array_agg(attname || ' ' || atttypid ORDER BY attnum) = $2::text[] THEN 1 ELSE 0 END)
FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND attname = ANY ($3::text[])`,
			what: "compare the columns of " + t.quoted, table: t, compares: true, asText: true,
			params: x.w.textParams(&t.quoted, &t.columnTypes, &t.columnNames),
		})
		x.copied = append(x.copied, t)
	}
	x.w.add(statement{sql: "SAVEPOINT copy", what: "savepoint"})
	return x.flush(ctx)
}

// copyHead begins COPY's binary form: a signature, flags, and the length of an extension.
const copyHead = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// A copyReader gives entries in COPY's binary form: for each row the number of its fields, and the
// fields as elements of arrays are written. They are encoded while the server is busy with those
// before.
type copyReader struct {
	b       *batch
	w       *work
	muts    []logical.Mutation
	entries []entry
	columns []int
	buf     []byte
	read    int // of buf
	next    int // of entries
}

// Read implements io.Reader.
func (r *copyReader) Read(p []byte) (int, error) {
	if r.read == len(r.buf) {
		if r.next > len(r.entries) {
			return 0, io.EOF
		}
		r.buf, r.read = r.buf[:0], 0
	}
	for len(r.buf) < len(p) && r.next <= len(r.entries) {
		if r.next == len(r.entries) {
			r.buf = append(r.buf, 0xff, 0xff) // the end
		} else {
			r.buf = binary.BigEndian.AppendUint16(r.buf, uint16(len(r.columns)))
			for _, at := range r.columns {
				r.buf = r.b.appendElement(r.buf, r.w, r.muts, &r.entries[r.next], at)
			}
		}
		r.next++
	}
	n := copy(p, r.buf[r.read:])
	r.read += n
	return n, nil
}

// explainCopy classifies an error of COPY into a table, and names the mutation if the server names the row.
func (x *tx) explainCopy(ctx context.Context, err error, into string, b *batch, entries []entry) error {
	var pg *pgconn.PgError
	answered := errors.As(err, &pg)
	if answered && isSchemaError(err) {
		x.s.t.catalog.forget()
	}
	if answered {
		x.suspectOf(b.table, pg.Code)
	}
	classified := classify(ctx, err)
	var e *logical.Error
	if answered && x.inside && errors.As(classified, &e) && e.Class == logical.ClassReject {
		if row := copyLine(pg.Where, into); row > 0 && row <= len(entries) && b.prev[entries[row-1].last] < 0 {
			e.Rejected = []logical.Rejection{{Index: int(entries[row-1].last), Reason: e.Err}}
		}
	}
	classified = errors.WithMessage(classified, "copy into "+b.table.quoted)
	if answered && x.guard && orderMatters(pg.Code) {
		return &guardedError{classified}
	}
	return classified
}

// copyLine reads the number of the row from an error's context: "COPY cpu, line 12". What happens within a
// trigger comes before that.
func copyLine(where, table string) int {
	prefix := "COPY " + table + ", line "
	at := strings.LastIndex("\n"+where, "\n"+prefix)
	if at < 0 {
		return 0
	}
	rest := where[at+len(prefix):]
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	n, _ := strconv.Atoi(rest[:end])
	return n
}
