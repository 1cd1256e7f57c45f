package postgres

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace-cdc/tailrace/logical"
)

// setAside adds a dead letter to the statements of the transaction.
func (x *tx) setAside(l *logical.DeadLetter) {
	at := l.Time
	if at.IsZero() {
		at = time.Now()
	}
	fingerprint := l.Fingerprint()
	x.w.add(statement{
		sql: `INSERT INTO ` + x.s.t.staging + `dead_letters (loop, stamp, relation, key, op, payload, reason, time, fingerprint, position)
VALUES ($1::text, $2::text, $3::text, $4::bytea, $5::text, $6::bytea, $7::text, $8::timestamptz, $9::bytea, $10::bigint)
ON CONFLICT (loop, fingerprint) DO NOTHING`, what: "store a dead letter",
		params: x.w.textParams(text(x.s.claim.Loop), jsonText(l.Stamp), text(printable(l.Table)), hexBytes(l.Key), text(l.Op.String()),
			hexBytes(l.Payload), text(printable(l.Reason)), timeText(at), hexBytes(fingerprint[:]), text(formatInt(int64(l.Position)))),
		asText: true,
	})
}

// takeBack adds the removal of dead letters to the statements of the transaction.
func (x *tx) takeBack(ids []int64) {
	x.w.add(statement{
		sql:  "DELETE FROM " + x.s.t.staging + "dead_letters WHERE loop = $1::text AND id = ANY ($2::bigint[])",
		what: "take dead letters back", params: x.w.textParams(text(x.s.claim.Loop), arrayText(ids)), asText: true,
	})
}

func arrayText(ids []int64) *string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = formatInt(id)
	}
	return text("{" + strings.Join(list, ",") + "}")
}

// printable returns a text that the server can store.
func printable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

func hexBytes(b []byte) *string {
	if b == nil {
		return nil
	}
	return text(`\x` + hex.EncodeToString(b))
}

// ListDeadLetters returns up to limit letters of a loop whose ID is greater than after, by ID.
func (t *Target) ListDeadLetters(ctx context.Context, loop string, after int64, limit int) ([]logical.DeadLetter, error) {
	var letters []logical.DeadLetter
	err := t.lettersDo(ctx, func(tx pgx.Tx) error {
		letters = nil
		rows, err := tx.Query(ctx, `SELECT id, stamp, relation, key, op, payload, reason, time, coalesce(position, id) FROM `+t.staging+`dead_letters
WHERE loop = $1 AND id > $2 ORDER BY id LIMIT $3`, loop, after, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			l := logical.DeadLetter{Loop: loop}
			var stamp *string
			var op string
			if err := rows.Scan(&l.ID, &stamp, &l.Table, &l.Key, &op, &l.Payload, &l.Reason, &l.Time, &l.Position); err != nil {
				return err
			}
			if stamp != nil {
				l.Stamp = []byte(*stamp)
			}
			l.Op, l.Time = logical.OpNamed(op), l.Time.UTC()
			letters = append(letters, l)
		}
		return rows.Err()
	})
	return letters, err
}

// CountDeadLetters returns how many letters of a loop there are, and their size in bytes.
func (t *Target) CountDeadLetters(ctx context.Context, loop string) (n, bytes int64, err error) {
	err = t.lettersDo(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*), coalesce(sum(octet_length(coalesce(key, '')) + octet_length(coalesce(payload, '')) + octet_length(reason)), 0)::bigint
FROM `+t.staging+`dead_letters WHERE loop = $1`, loop).Scan(&n, &bytes)
	})
	return n, bytes, err
}

// DiscardDeadLetters removes letters of a loop.
func (t *Target) DiscardDeadLetters(ctx context.Context, loop string, ids []int64) error {
	return t.lettersDo(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM "+t.staging+"dead_letters WHERE loop = $1 AND id = ANY ($2::bigint[])", loop, ids)
		return err
	})
}

func (t *Target) lettersDo(ctx context.Context, fn func(tx pgx.Tx) error) error {
	if err := t.stage(ctx); err != nil {
		return err
	}
	err := t.transact(ctx, fn)
	t.restage(err)
	return err
}
