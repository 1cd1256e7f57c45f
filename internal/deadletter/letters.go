package deadletter

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// SetAside stores letters, all or none, durably when it returns. A letter that is there already is left
// as it is.
func (s *Store) SetAside(ctx context.Context, letters []logical.DeadLetter) error {
	return s.write(ctx, "set aside", func(tx *sql.Tx) error { return insert(ctx, tx, letters) })
}

// Exchange removes letters of a loop, and then stores others, all or nothing, durably when it returns. One that is
// removed may be stored again, with another reason.
func (s *Store) Exchange(ctx context.Context, loop string, ids []int64, letters []logical.DeadLetter) error {
	return s.write(ctx, "exchange", func(tx *sql.Tx) error {
		if err := remove(ctx, tx, loop, ids); err != nil {
			return err
		}
		return insert(ctx, tx, letters)
	})
}

func insert(ctx context.Context, tx *sql.Tx, letters []logical.DeadLetter) error {
	stmt, err := tx.PrepareContext(ctx, `INSERT INTO letters
(loop, fingerprint, stamp, position, relation, key, op, payload, reason, time, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (loop, fingerprint) DO NOTHING`)
	if err != nil {
		return err
	}
	defer func() { _ = stmt.Close() }() // the transaction's end says whether it worked
	for i := range letters {
		l := &letters[i]
		once := l.Fingerprint()
		at := l.Time
		if at.IsZero() {
			at = time.Now()
		}
		_, err := stmt.ExecContext(ctx, l.Loop, once[:], text(l.Stamp), l.Position, clean(l.Table), l.Key, l.Op.String(), l.Payload,
			clean(l.Reason), at.UnixNano(), l.Size())
		if err != nil {
			return err
		}
	}
	return nil
}

// ListDeadLetters implements logical.DeadLetters.
func (s *Store) ListDeadLetters(ctx context.Context, loop string, after int64, limit int) ([]logical.DeadLetter, error) {
	db, err := s.handle(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, `SELECT id, stamp, coalesce(position, id), relation, key, op, payload, reason, time FROM letters
WHERE loop = ? AND id > ? ORDER BY id LIMIT ?`, loop, after, max(limit, 0))
	if err != nil {
		return nil, s.failed(err, "list")
	}
	defer func() { _ = rows.Close() }() // rows.Err says what went wrong
	var letters []logical.DeadLetter
	for rows.Next() {
		l := logical.DeadLetter{Loop: loop}
		var stamp sql.NullString
		var op string
		var at int64
		if err := rows.Scan(&l.ID, &stamp, &l.Position, &l.Table, &l.Key, &op, &l.Payload, &l.Reason, &at); err != nil {
			return nil, s.failed(err, "list")
		}
		if stamp.Valid {
			l.Stamp = json.RawMessage(stamp.String)
		}
		l.Op, l.Time = logical.OpNamed(op), time.Unix(0, at).UTC()
		letters = append(letters, l)
	}
	if err := rows.Err(); err != nil {
		return nil, s.failed(err, "list")
	}
	return letters, nil
}

// CountDeadLetters implements logical.DeadLetters.
func (s *Store) CountDeadLetters(ctx context.Context, loop string) (n, bytes int64, err error) {
	db, err := s.handle(ctx)
	if err != nil {
		return 0, 0, err
	}
	err = db.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(size), 0) FROM letters WHERE loop = ?", loop).Scan(&n, &bytes)
	if err != nil {
		return 0, 0, s.failed(err, "count")
	}
	return n, bytes, nil
}

// DiscardDeadLetters implements logical.DeadLetters.
func (s *Store) DiscardDeadLetters(ctx context.Context, loop string, ids []int64) error {
	return s.write(ctx, "discard", func(tx *sql.Tx) error { return remove(ctx, tx, loop, ids) })
}

func remove(ctx context.Context, tx *sql.Tx, loop string, ids []int64) error {
	for _, id := range ids {
		if _, err := tx.ExecContext(ctx, "DELETE FROM letters WHERE loop = ? AND id = ?", loop, id); err != nil {
			return err
		}
	}
	return nil
}

// Forget removes all letters of a loop, when its stream is deleted.
func (s *Store) Forget(ctx context.Context, loop string) error {
	return s.write(ctx, "forget a stream", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM letters WHERE loop = ?", loop)
		return err
	})
}

func (s *Store) write(ctx context.Context, doing string, fn func(tx *sql.Tx) error) error {
	db, err := s.handle(ctx)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return s.failed(err, doing)
	}
	defer func() { _ = tx.Rollback() }() // it does nothing after Commit
	if err := fn(tx); err != nil {
		return s.failed(err, doing)
	}
	if err := tx.Commit(); err != nil {
		return s.failed(err, doing)
	}
	return nil
}

// text returns JSON as SQL text, or null.
func text(raw json.RawMessage) sql.NullString {
	return sql.NullString{String: string(raw), Valid: raw != nil}
}

// clean makes text of what a target has said, which may be anything.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
