package sqlite

import (
	"context"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/tailrace-cdc/tailrace/logical"
)

// setAside stores dead letters in the open transaction.
func (w *writer) setAside(loop string, letters []logical.DeadLetter, now time.Time) error {
	for i := range letters {
		l := &letters[i]
		at := l.Time
		if at.IsZero() {
			at = now
		}
		var stamp any
		if l.Stamp != nil {
			stamp = string(l.Stamp)
		}
		fingerprint := l.Fingerprint()
		err := w.exec(`INSERT INTO _tailrace_dead_letters (loop, stamp, relation, key, op, payload, reason, time, fingerprint, position)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (loop, fingerprint) DO NOTHING`,
			loop, stamp, l.Table, l.Key, l.Op.String(), l.Payload, l.Reason, at.UnixNano(), fingerprint[:], int64(l.Position))
		if err != nil {
			return err
		}
	}
	return nil
}

// ListDeadLetters returns up to limit letters of a loop whose ID is greater than after, by ID.
func (t *Target) ListDeadLetters(ctx context.Context, loop string, after int64, limit int) ([]logical.DeadLetter, error) {
	var letters []logical.DeadLetter
	err := t.readLetters(ctx, func(w *writer) error {
		return w.query(`SELECT id, stamp, relation, key, op, payload, reason, time, coalesce(position, id) FROM _tailrace_dead_letters
WHERE loop = ? AND id > ? ORDER BY id LIMIT ?`, func(s *sqlite3.Stmt) error {
			l := logical.DeadLetter{
				ID: s.ColumnInt64(0), Loop: loop, Table: s.ColumnText(2), Key: s.ColumnBlob(3, nil), Op: logical.OpNamed(s.ColumnText(4)),
				Payload: s.ColumnBlob(5, nil), Reason: s.ColumnText(6), Time: columnTime(s, 7), Position: int(s.ColumnInt64(8)),
			}
			if s.ColumnType(1) != sqlite3.NULL {
				l.Stamp = []byte(s.ColumnText(1))
			}
			letters = append(letters, l)
			return nil
		}, loop, after, int64(limit))
	})
	return letters, err
}

// CountDeadLetters returns how many letters of a loop there are, and their size in bytes.
func (t *Target) CountDeadLetters(ctx context.Context, loop string) (n, bytes int64, err error) {
	err = t.readLetters(ctx, func(w *writer) error {
		return w.query(`SELECT count(*), coalesce(sum(length(coalesce(key, '')) + length(coalesce(payload, '')) + length(reason)), 0)
FROM _tailrace_dead_letters WHERE loop = ?`, func(s *sqlite3.Stmt) error {
			n, bytes = s.ColumnInt64(0), s.ColumnInt64(1)
			return nil
		}, loop)
	})
	return n, bytes, err
}

// readLetters reads the dead letters, of which there are none while no loop has taken the file over.
func (t *Target) readLetters(ctx context.Context, fn func(r *writer) error) error {
	return t.read(ctx, func(r *writer) error {
		there := false
		err := r.query("SELECT 1 FROM sqlite_schema WHERE name = '_tailrace_dead_letters'", func(*sqlite3.Stmt) error {
			there = true
			return nil
		})
		if err != nil || !there {
			return err
		}
		return fn(r)
	})
}

// DiscardDeadLetters removes letters of a loop.
func (t *Target) DiscardDeadLetters(ctx context.Context, loop string, ids []int64) error {
	return t.write(ctx, func(w *writer) error { return w.removeLetters(loop, ids) })
}

// removeLetters removes dead letters in the open transaction.
func (w *writer) removeLetters(loop string, ids []int64) error {
	for _, id := range ids {
		if err := w.exec("DELETE FROM _tailrace_dead_letters WHERE loop = ? AND id = ?", loop, id); err != nil {
			return err
		}
	}
	return nil
}
