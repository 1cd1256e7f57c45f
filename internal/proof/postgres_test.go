package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tailrace-cdc/tailrace/internal/oracle"
	"github.com/tailrace-cdc/tailrace/internal/oracle/history"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/source/logical/chaos"
	"github.com/tailrace-cdc/tailrace/internal/target/postgres"
	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
)

var env testenv.Env

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// schema makes the tables, and has the server record what is done to them, and each consistent point, in the order
// in which it happens: for each row that is the order of its locks.
const schema = `
CREATE TABLE t (id bigint PRIMARY KEY, v bigint, a bigint, b bigint, c bigint, d bigint, e bigint);
CREATE TABLE u (LIKE t INCLUDING ALL);
CREATE SCHEMA proof;
CREATE TABLE proof.log (seq bigserial PRIMARY KEY, what text, id bigint, v bigint, point text);
CREATE FUNCTION proof.row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF TG_OP = 'DELETE' THEN INSERT INTO proof.log (what, id) VALUES (TG_TABLE_NAME, OLD.id);
	ELSE INSERT INTO proof.log (what, id, v) VALUES (TG_TABLE_NAME, NEW.id, NEW.v); END IF;
	RETURN NULL;
END $$;
CREATE FUNCTION proof.memo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO proof.log (what, point) VALUES ('memo', NEW.point); RETURN NULL;
END $$;
CREATE TRIGGER row AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION proof.row();
CREATE TRIGGER row AFTER INSERT OR UPDATE OR DELETE ON u FOR EACH ROW EXECUTE FUNCTION proof.row();
`

// TestModelOnPostgres runs random histories through whole loops into PostgreSQL, with chaos, killed connections,
// restarts from stored state and changes of the mode. A reader beside them checks ATOMIC in snapshots of all
// tables, and what the server has recorded is checked for ORDER and PREFIX; at the end CONVERGE.
func TestModelOnPostgres(t *testing.T) {
	t.Parallel()
	base := uint64(time.Now().UnixNano())
	if text := os.Getenv("TAILRACE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		model(t, seed)
		return
	}
	for i := range testenv.Count(4, 2000) {
		seed := base + uint64(i)
		if !t.Run("seed", func(t *testing.T) { model(t, seed) }) {
			t.Fatalf("TAILRACE_SEED=%d makes the same history and the same faults, as far as calls come in the same order", seed)
		}
	}
}

func model(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	prob := []float64{0, 0.01, 0.05, 0.1}[rng.IntN(4)]
	txs := history.Make(rng, history.Config{Transactions: 30, Large: 300})
	r := &run{
		t: t, rng: rng, txs: txs, judge: oracle.New(history.Tell(txs)), dsn: env.Postgres(t),
		source: &source{txs: txs, batch: 10 + rng.IntN(60), pause: time.Duration(rng.IntN(4)) * time.Millisecond},
		chaos:  chaos.New(chaos.Config{Prob: prob, Seed: seed, Stall: 40 * time.Millisecond}),
	}
	pool, err := pgxpool.New(t.Context(), r.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	r.pool = pool
	r.prepare()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.read()
	}()
	for left := rng.IntN(5); ; left-- {
		if r.live(left > 0) {
			break
		}
	}
	r.over.Store(true)
	<-done
	if rows, _, _, err := r.snapshot(); err != nil {
		t.Fatal(err)
	} else if err := r.judge.Converged(rows); err != nil {
		t.Error(err)
	}
	r.checkLog()
	t.Logf("seed %d, %d transactions, chaos %.2f: %d snapshots, %d of them consistent", seed, len(txs), prob, r.looks.Load(), r.atomics.Load())
}

type run struct {
	t      *testing.T
	rng    *rand.Rand
	txs    [][]logical.Mutation
	judge  *oracle.Judge
	dsn    string
	pool   *pgxpool.Pool
	source *source
	chaos  *chaos.Chaos

	over           atomic.Bool
	looks, atomics atomic.Int64
}

// prepare makes the tables. The staging tables are made by a target that opens first.
func (r *run) prepare() {
	r.t.Helper()
	if _, err := r.pool.Exec(r.t.Context(), schema); err != nil {
		r.t.Fatal(err)
	}
	target := r.open()
	session, err := target.Take(r.t.Context(), logical.Claim{Loop: "before", Holder: "one", TTL: time.Minute})
	if err != nil {
		r.t.Fatal(err)
	}
	_ = session.Release(r.t.Context())
	_ = target.Close()
	if _, err := r.pool.Exec(r.t.Context(), `CREATE TRIGGER memo AFTER INSERT OR UPDATE ON _tailrace.memo
FOR EACH ROW WHEN (NEW.loop = 'loop') EXECUTE FUNCTION proof.memo()`); err != nil {
		r.t.Fatal(err)
	}
}

func (r *run) open() *postgres.Target {
	r.t.Helper()
	target, err := postgres.Open(r.t.Context(), postgres.Config{DSN: r.dsn, Conns: 8})
	if err != nil {
		r.t.Fatal(err)
	}
	return target
}

// live is the life of one process: to the end of the source, or to an end of its own.
func (r *run) live(mortal bool) (finished bool) {
	r.t.Helper()
	target := r.open()
	defer func() { _ = target.Close() }()
	factory, err := loops.NewFactory(loops.FactoryConfig{Holder: "one", Log: slog.New(slog.DiscardHandler), Chaos: r.chaos})
	if err != nil {
		r.t.Fatal(err)
	}
	loop, err := factory.Get(r.t.Context(), loops.Spec{Name: "loop", Dialect: r.source, Target: target, Config: logical.Config{
		Immediate: r.rng.IntN(2) == 0, FanShards: 1 + r.rng.IntN(4), StandbyTimeout: 100 * time.Millisecond,
		BytesInFlight: []int64{logical.MinBytesInFlight, 10 << 20}[r.rng.IntN(2)],
		RetryDelay:    time.Millisecond, RetryMax: 20 * time.Millisecond,
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	deadline := time.Now().Add(3 * time.Minute)
	death := deadline
	if mortal {
		death = time.Now().Add(time.Duration(50+r.rng.IntN(600)) * time.Millisecond)
	}
	for time.Now().Before(death) && !finished {
		p, ok := loop.Status().Point.(at)
		finished = ok && p.N == len(r.txs)
		if r.rng.IntN(60) == 0 {
			r.terminate()
		}
		time.Sleep(5 * time.Millisecond)
	}
	if !mortal && !finished {
		r.t.Fatalf("the loop does not come to its end: %+v", loop.Status())
	}
	grace := time.Duration(r.rng.IntN(2)) * time.Minute // an end in order, or in the middle
	if finished {
		grace = time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	factory.Close(ctx)
	return finished
}

// terminate ends a connection of the loop, as an operator or a failing network does.
func (r *run) terminate() {
	_, _ = r.pool.Exec(r.t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND application_name LIKE 'tailrace%'
ORDER BY random() LIMIT 1`)
}

// read looks at all tables in one snapshot, again and again.
func (r *run) read() {
	for !r.over.Load() {
		time.Sleep(time.Millisecond) // the loops need the machine too
		rows, point, consistent, err := r.snapshot()
		if err != nil {
			r.t.Error(err)
			return
		}
		r.looks.Add(1)
		if !consistent {
			continue
		}
		r.atomics.Add(1)
		if err := r.judge.Snapshot(rows, point); err != nil {
			r.t.Error(err)
			return
		}
	}
}

// snapshot reads all tables and the memo in one REPEATABLE READ transaction.
func (r *run) snapshot() (rows oracle.Rows, point int, consistent bool, err error) {
	ctx := r.t.Context()
	rows = oracle.Rows{}
	err = pgx.BeginTxFunc(ctx, r.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var stored string
		err := tx.QueryRow(ctx, "SELECT point, consistent_since IS NOT NULL FROM _tailrace.memo WHERE loop = 'loop'").Scan(&stored, &consistent)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if err == nil {
			if point, err = number(stored); err != nil {
				return err
			}
		}
		for _, table := range []string{"t", "u"} {
			if err := read(ctx, tx, table, rows); err != nil {
				return err
			}
		}
		return nil
	})
	return rows, point, consistent, err
}

func number(stored string) (int, error) {
	var p at
	err := json.Unmarshal([]byte(stored), &p)
	return p.N, err
}

func read(ctx context.Context, tx pgx.Tx, table string, rows oracle.Rows) error {
	found, err := tx.Query(ctx, "SELECT * FROM "+table)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		values, err := found.Values()
		if err != nil {
			return err
		}
		row := oracle.Row{}
		for i, f := range found.FieldDescriptions()[1:] {
			if v := values[i+1]; v != nil {
				row[f.Name] = fmt.Sprint(v)
			}
		}
		rows[oracle.ID(table, fmt.Sprint(values[0]))] = row
	}
	return found.Err()
}

// checkLog checks what the server has recorded: the mutations of a row in source order, except that they may begin
// again after the consistent point (ORDER), and a consistent point that only moves forward (PREFIX).
func (r *run) checkLog() {
	r.t.Helper()
	numbers := map[int64]int{} // transactions, by the numbers of their mutations
	for n, tx := range r.txs {
		for i := range tx {
			numbers[history.Number(&tx[i])] = n + 1
		}
	}
	found, err := r.pool.Query(r.t.Context(), "SELECT what, id, v, point FROM proof.log ORDER BY seq")
	if err != nil {
		r.t.Fatal(err)
	}
	defer found.Close()
	point, last, events := 0, map[string]int64{}, 0
	for found.Next() {
		var what string
		var id, v *int64
		var stored *string
		if err := found.Scan(&what, &id, &v, &stored); err != nil {
			r.t.Fatal(err)
		}
		events++
		switch {
		case stored != nil:
			to, err := number(*stored)
			if err != nil || to < point {
				r.t.Errorf("PREFIX: the consistent point went from %d to %s, %v", point, *stored, err)
			}
			point = to
		case v != nil:
			key := fmt.Sprint(what, "/", *id)
			if *v < last[key] && numbers[*v] <= point {
				r.t.Errorf("ORDER: %s went back from %d to %d of transaction %d, and the consistent point is %d", key, last[key], *v, numbers[*v], point)
			}
			last[key] = *v
		}
	}
	if err := found.Err(); err != nil || events == 0 {
		r.t.Fatalf("%d events were recorded, error %v", events, err)
	}
}
