package e2e

import (
	"testing"
)

// TestNothingSilentWhenTheServerRejects has PostgreSQL itself refuse points, which nobody can tell before
// they are sent: each is found among its neighbours and set aside with the server's reason.
func TestNothingSilentWhenTheServerRejects(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"serial": nil, "fan": {"--immediate"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := env.Postgres(t)
			db := openPostgres(t, dsn)
			execute(t, db, `CREATE TABLE weather ("time" timestamptz, city text NOT NULL DEFAULT '', t float8 CHECK (t < 100), PRIMARY KEY ("time", city))`)
			p := launch(t, t.TempDir(), append([]string{"--targetConn", dsn}, args...)...)
			p.write("weather,city=Bern t=1 1000\nweather,city=Bern t=500 2000\nweather,city=Bern t=3 3000\nweather,city=Basel t=600 1000\nweather,city=Bern t=5 5000")
			awaitCount(t, db, `SELECT count(*) FROM weather`, 3)
			awaitCount(t, db, `SELECT count(*) FROM _tailrace.dead_letters WHERE reason LIKE '%weather_t_check%'`, 2)
			awaitCount(t, db, `SELECT count(*) FROM _tailrace.dead_letters WHERE convert_from(payload, 'UTF8') IN ('weather,city=Bern t=500 2000', 'weather,city=Basel t=600 1000')`, 2)
			p.write("weather,city=Bern t=7 7000")
			awaitCount(t, db, `SELECT count(*) FROM weather`, 4)

			// A table that somebody drops is made again.
			execute(t, db, "DROP TABLE weather")
			p.write("weather,city=Bern t=8 8000")
			awaitCount(t, db, `SELECT count(*) FROM weather`, 1)
		})
	}
}
