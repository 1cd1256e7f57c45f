package postgres

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace-cdc/tailrace/internal/util/outbound"
)

// A host that the operator does not allow is not connected to. One that is allowed is, by its name and, to
// stop a statement whose context has ended, by its address.
func TestHostsThatAreNotAllowed(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(env.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Host = "localhost:" + u.Port()
	for list, ok := range map[string]bool{"10.0.0.0/8": false, "localhost": false, "127.0.0.0/8,::1": true} {
		policy, err := outbound.NewPolicy(strings.Split(list, ","))
		if err != nil {
			t.Fatal(err)
		}
		target := open(t, Config{DSN: u.String(), Outbound: policy})
		asleep := func(n string) {
			t.Helper()
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				got := rows(t, target, "SELECT count(*)::text FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)' AND state = 'active'")
				if got[0][0] == n {
					return
				}
				if time.Now().After(deadline) {
					t.Errorf("%s statements sleep, want %s", got[0][0], n)
					return
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var stopping sync.WaitGroup
		if ok {
			stopping.Go(func() {
				asleep("1")
				cancel()
			})
		}
		err = target.transact(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "SELECT pg_sleep(600)")
			return err
		})
		stopping.Wait()
		cancel()
		if !ok {
			if err == nil || !strings.Contains(err.Error(), "--allowRemoteHosts") {
				t.Errorf("%s: %v", list, err)
			}
			continue
		}
		if err == nil || strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%s: %v", list, err)
		}
		asleep("0")
	}
}
