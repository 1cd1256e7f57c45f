package postgres

import (
	"encoding/json"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/overflow"
)

// A work holds what a transaction has not sent yet, and the memory that its batches are encoded in.
// It is used by one transaction at a time, and reused.
type work struct {
	statements []statement
	prelude    []statement // the same with what a transaction begins with
	arena      []byte      // what parameters point into
	params     []span      // what statements have as parameters

	call    int     // of Apply that is at hand
	plans   []*plan // of the mutations of the call at hand
	batches map[*table]*batch
	order   []*table // of batches, by first use
	free    []*batch
	mask    []byte
	copyBuf []byte
	object  overflow.Object
	values  [][]byte // of the statement that is being sent
}

func newWork() *work { return &work{batches: map[*table]*batch{}} }

// keepBytes is the largest arena that is kept for the next transaction.
const keepBytes = 4 << 20

func (w *work) reset() {
	w.sent()
	clear(w.plans)
	w.plans = w.plans[:0]
	w.endBatches()
}

// sent forgets the statements.
func (w *work) sent() {
	clear(w.statements)
	w.statements = w.statements[:0]
	if cap(w.arena) > keepBytes {
		w.arena = nil
	}
	w.arena = w.arena[:0]
	w.params = w.params[:0]
}

// spans returns room for the parameters of a statement.
func (w *work) spans(n int) []span {
	if len(w.params)+n > cap(w.params) {
		w.params = make([]span, 0, max(256, n)) // what was given out stays where it is
	}
	from := len(w.params)
	w.params = w.params[:from+n]
	return w.params[from : from+n : from+n]
}

func (w *work) size() int { return len(w.arena) }

func (w *work) add(s statement) { w.statements = append(w.statements, s) }

// A statement is one that waits to be sent.
type statement struct {
	sql      string
	what     string // for messages
	params   []span
	asText   bool // the parameters are in their text form, otherwise in the binary one
	proves   bool // that the epoch is the session's: a division by zero means that it is not
	compares bool // the columns of its table with what is known of them: a division by zero means that they differ
	commits  bool
	guards   bool // it is the savepoint that the statements behind it can be given up to
	// mutation is the one that the statement applies, plus one, if it applies no other.
	mutation int
	call     int    // of Apply that it comes of
	table    *table // whose schema it rests on, if any
}

// A span is a parameter: a part of the arena, or NULL.
type span struct{ from, to int }

func nullSpan() span { return span{from: -1} }

// textParams puts parameters into the arena.
func (w *work) textParams(values ...*string) []span {
	spans := w.spans(len(values))
	for i, v := range values {
		spans[i] = nullSpan()
		if v != nil {
			from := len(w.arena)
			w.arena = append(w.arena, *v...)
			spans[i] = span{from, len(w.arena)}
		}
	}
	return spans
}

func text(s string) *string { return &s }

// textArray returns the text form of a text[].
func textArray(values []string) string {
	b := []byte{'{'}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		for k := range len(v) {
			if v[k] == '"' || v[k] == '\\' {
				b = append(b, '\\')
			}
			b = append(b, v[k])
		}
		b = append(b, '"')
	}
	return string(append(b, '}'))
}

func jsonText(j json.RawMessage) *string {
	if j == nil {
		return nil
	}
	return text(string(j))
}

func timeText(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return text(t.UTC().Format("2006-01-02 15:04:05.999999Z07:00"))
}

// prove is what a transaction begins with: nobody raises the epoch while it is open, and it is the
// one that the transaction was begun under.
func (x *tx) prove(statements []statement) []statement {
	t := x.s.t
	begin := "BEGIN ISOLATION LEVEL READ COMMITTED"
	lock := ""
	loop := x.w.textParams(text(x.s.claim.Loop))
	if t.crdb.Load() {
		begin, lock = "BEGIN", " FOR SHARE"
	}
	statements = append(statements, statement{sql: begin, what: "begin"})
	if t.cfg.Pooled {
		statements = append(statements, statement{sql: t.localSettings(), what: "settings"})
	}
	if lock == "" {
		key := x.w.textParams(text(formatInt(t.epochKey(x.s.claim.Loop))))
		statements = append(statements, statement{sql: "SELECT pg_advisory_xact_lock_shared($1::bigint)", what: "lock the epoch", params: key, asText: true})
	}
	epoch := x.w.textParams(text(formatInt(x.epoch)))
	return append(statements, statement{
		sql:  "SELECT 1 / count(*) FROM (SELECT 1 FROM " + t.staging + "epochs WHERE loop = $1::text AND epoch = $2::bigint" + lock + ") AS e",
		what: "prove the epoch", params: []span{loop[0], epoch[0]}, asText: true, proves: true,
	})
}
