package postgres

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestProcessesMakeTheSameTablesAtOnce has eight processes' worth of loops need the same tables, columns and
// indexes at the same time, on a database that has nothing, in orders of their own: no error reaches anybody,
// and every value is there.
func TestProcessesMakeTheSameTablesAtOnce(t *testing.T) {
	t.Parallel()
	const processes, loops, measurements = 8, 2, 5
	seed := logicaltest.Seed(t)
	dsn := env.Postgres(t)
	rounds := testenv.Count(6, 60)
	errs := make(chan error, processes*loops)
	for p := range processes {
		target := open(t, Config{DSN: dsn, Conns: 4, IndexTags: []string{"host"}})
		for l := range loops {
			r := rand.New(rand.NewPCG(seed, uint64(p*loops+l)))
			go func() {
				errs <- func() error {
					ctx := t.Context()
					s, err := target.Take(ctx, logical.Claim{Loop: fmt.Sprintf("loop %d.%d", p, l), Holder: fmt.Sprint(p)})
					if err != nil {
						return err
					}
					for n := range rounds {
						var muts []logical.Mutation
						for _, m := range r.Perm(measurements) {
							// A measurement that is new to all, with fields that come one after the other.
							rel := logicaltest.Points(fmt.Sprintf("m%d.%d", n, m), []string{"host"},
								logicaltest.Field("common", logical.KindInt64), logicaltest.Field(fmt.Sprintf("f%d", r.IntN(20)), logical.KindInt64))
							muts = append(muts, logicaltest.Point(rel, int64(p*loops+l), byte(l), logical.Text("h"), logical.Int64(1), logical.Int64(1)))
						}
						if err := logicaltest.Apply(ctx, s, muts...); err != nil {
							return fmt.Errorf("process %d, loop %d, round %d: %w", p, l, n, err)
						}
					}
					return s.Release(ctx)
				}()
			}()
		}
	}
	for range processes * loops {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	target := open(t, Config{DSN: dsn})
	for n := range rounds {
		for m := range measurements {
			name := fmt.Sprintf(`"m%d.%d"`, n, m)
			if got := rows(t, target, "SELECT count(*), sum(common) FROM "+name)[0]; got[0] != fmt.Sprint(processes*loops) || got[1] != got[0] {
				t.Errorf("%s has %v", name, got)
			}
		}
	}
	if got := rows(t, target, "SELECT count(*) FROM pg_indexes WHERE schemaname = 'public' AND indexdef LIKE '%host%'")[0][0]; got != fmt.Sprint(rounds*measurements) {
		t.Errorf("there are %s indexes on the tag, want %d", got, rounds*measurements)
	}
	if got := rows(t, target, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")[0][0]; got != "0" {
		t.Errorf("there were %s deadlocks", got)
	}
}
