package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// flush sends the statements that wait, all at once, and reads what came of them.
func (x *tx) flush(ctx context.Context) error {
	if x.conn == nil {
		conn, err := x.pool.Acquire(ctx)
		if err != nil {
			if openErr := x.s.t.open(); openErr != nil {
				return openErr
			}
			return classify(ctx, err)
		}
		x.conn = conn
	}
	statements := x.w.statements
	if !x.begun {
		x.begun = true
		statements = append(x.prove(x.w.prelude[:0]), statements...)
		x.w.prelude = statements
	}
	err := x.send(ctx, statements)
	x.w.sent()
	return err
}

// send runs the statements in one round trip.
func (x *tx) send(ctx context.Context, statements []statement) error {
	pg := x.conn.Conn().PgConn()
	known := preparedOn(pg)
	p := pg.StartPipeline(ctx)
	closing := len(known.closing)
	for _, name := range known.closing {
		p.SendDeallocate(name)
	}
	fresh := map[int]bool(nil)
	for i := range statements {
		s := &statements[i]
		name, unknown := "", false
		if !x.s.t.cfg.Pooled {
			name, unknown = known.name(s.sql)
		}
		if unknown {
			p.SendPrepare(name, s.sql, nil)
			if fresh == nil {
				fresh = map[int]bool{}
			}
			fresh[i] = true
		}
		values := x.w.resolve(s.params)
		if name == "" {
			p.SendQueryParams(s.sql, values, nil, s.formats(), nil)
		} else {
			p.SendQueryPrepared(name, values, s.formats(), nil)
		}
	}
	err := p.Sync()
	for n := 0; err == nil && n < closing; n++ {
		_, err = p.GetResults()
	}
	if err == nil {
		known.closing = known.closing[closing:]
	}
	at := 0
	for ; err == nil && at < len(statements); at++ {
		if fresh[at] {
			if _, err = p.GetResults(); err != nil {
				break
			}
			delete(fresh, at)
		}
		if err = oneResult(p); err != nil {
			break
		}
	}
	if closeErr := p.Close(); err == nil {
		err = closeErr
	}
	for i := range fresh { // those that the server did not come to
		known.forget(statements[i].sql)
	}
	if err != nil {
		return x.explain(ctx, err, statements, at)
	}
	return nil
}

func oneResult(p *pgconn.Pipeline) error {
	result, err := p.GetResults()
	if err != nil {
		return err
	}
	if rows, ok := result.(*pgconn.ResultReader); ok {
		_, err = rows.Close()
	}
	return err
}

// explain gives the error of the statement at the given place its class.
func (x *tx) explain(ctx context.Context, err error, statements []statement, at int) error {
	var s *statement
	if at < len(statements) {
		s = &statements[at]
	}
	commits := len(statements) > 0 && statements[len(statements)-1].commits
	var pg *pgconn.PgError
	answered := errors.As(err, &pg)
	if answered && s != nil && s.proves && pg.Code == "22012" {
		return fenced(x.s.claim.Loop)
	}
	if s != nil && s.table != nil && isSchemaError(err) {
		x.s.t.catalog.forget()
	}
	if answered && s != nil && s.compares && pg.Code == "22012" {
		x.s.t.catalog.forget()
		return retry(errors.Errorf("postgres: the columns of table %s were changed", s.table.quoted), hintSchema)
	}
	if !answered && ctx.Err() == nil || answered && outlived(pg.Code) {
		x.pool.Reset() // the other connections have most likely died of the same
	}
	if answered && s != nil {
		x.suspectOf(s.table, pg.Code)
	}
	classified := classify(ctx, err)
	var e *logical.Error
	// An index means something to the caller only if it is into the slice that he has at hand.
	if s != nil && s.mutation > 0 && (x.calls == 1 || x.inside && s.call == x.calls) && errors.As(classified, &e) && (e.Class == logical.ClassReject || e.Class == logical.ClassConstraint) {
		e.Rejected = []logical.Rejection{{Index: s.mutation - 1, Reason: e.Err}}
	}
	if s != nil {
		classified = errors.WithMessage(classified, s.what)
	}
	if answered && x.guard && orderMatters(pg.Code) && s != nil && !slices.ContainsFunc(statements[at:], func(s statement) bool { return s.guards }) {
		return &guardedError{classified}
	}
	// Whoever has sent COMMIT and got no answer does not know.
	unknown := commits && (!answered && !pgconn.SafeToRetry(err) || answered && s != nil && s.commits && (pg.Code[:2] == "57" || pg.Code[:2] == "08"))
	if unknown {
		return &logical.Error{Err: classified, Class: logical.ClassUnknownCommit, Hint: logical.HintOf(classified)}
	}
	return classified
}

// resolve returns the parameters' bytes. They are valid until it is called again.
func (w *work) resolve(params []span) [][]byte {
	w.values = w.values[:0]
	for _, p := range params {
		if p.from < 0 {
			w.values = append(w.values, nil)
		} else {
			w.values = append(w.values, w.arena[p.from:p.to:p.to])
		}
	}
	return w.values
}

func (s *statement) formats() []int16 {
	if s.asText || len(s.params) == 0 {
		return nil
	}
	return []int16{1}
}
