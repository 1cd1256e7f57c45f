package sqlite

import (
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/tailrace-cdc/tailrace/logical"
)

func (w *writer) loadMemo(loop string) (state logical.MemoState, err error) {
	err = w.query("SELECT point, point_time, mode, consistent_since, skip FROM _tailrace_memo WHERE loop = ?", func(s *sqlite3.Stmt) error {
		if s.ColumnType(0) != sqlite3.NULL {
			state.Point = []byte(s.ColumnText(0))
		}
		state.PointTime = columnTime(s, 1)
		state.Mode = s.ColumnText(2)
		state.ConsistentSince = columnTime(s, 3)
		state.Skip = int(s.ColumnInt64(4))
		return nil
	}, loop)
	return state, err
}

func (w *writer) saveMemo(loop string, state logical.MemoState, now time.Time) error {
	var point any
	if state.Point != nil {
		point = string(state.Point)
	}
	return w.exec(`INSERT INTO _tailrace_memo (loop, point, point_time, mode, consistent_since, skip, updated) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (loop) DO UPDATE SET point = excluded.point, point_time = excluded.point_time, mode = excluded.mode,
	consistent_since = excluded.consistent_since, skip = excluded.skip, updated = excluded.updated`,
		loop, point, nullableTime(state.PointTime), state.Mode, nullableTime(state.ConsistentSince), int64(state.Skip), now.UnixNano())
}

func columnTime(s *sqlite3.Stmt, column int) time.Time {
	if s.ColumnType(column) == sqlite3.NULL {
		return time.Time{}
	}
	return time.Unix(0, s.ColumnInt64(column)).UTC()
}

func nullableTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixNano()
}
