package influxlogical

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// opened is a dialect with its queue, which is closed with it.
type opened struct{ *dialect }

func (o opened) Close() error { return o.queue.Close() }

// TestDialectPassesTheSuite opens the queue anew for each dialect, as a server does that starts again.
func TestDialectPassesTheSuite(t *testing.T) {
	t.Parallel()
	const requests = 12
	logicaltest.RunDialect(t, func(t testing.TB) logicaltest.Source {
		store, err := queue.OpenStore(queue.StoreConfig{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		var now *queue.Queue // the one that is open
		written := 0
		add := func(t testing.TB) {
			t.Helper()
			written++
			write(t, now, written)
		}
		open := func(t testing.TB) logical.Dialect {
			t.Helper()
			if now, err = store.Open("stream", queue.Config{}); err != nil {
				t.Fatal(err)
			}
			return opened{&dialect{
				queue: now, log: slog.New(slog.DiscardHandler), note: func(Notice) {},
				decoder: lineprotocol.NewDecoder(lineprotocol.DecoderConfig{}),
			}}
		}
		filled := open(t)
		for range requests {
			add(t)
		}
		if err := filled.(opened).Close(); err != nil {
			t.Fatal(err)
		}
		return logicaltest.Source{Transactions: requests, Open: open, Add: add}
	})
}

// write writes the n-th request: each of several blocks, which are one group.
func write(t testing.TB, q *queue.Queue, n int) {
	t.Helper()
	var group queue.Group
	for block := range 1 + n%3 {
		var lines strings.Builder
		for i := range 3 * n {
			fmt.Fprintf(&lines, "m%d,host=h%d v=%di,s=\"%s\" %d\n", i%2, block, i, strings.Repeat("x", i), i+1)
		}
		var normalizer lineprotocol.Normalizer
		result, err := normalizer.Normalize(strings.NewReader(lines.String()), lineprotocol.Options{Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range result.Blocks {
			if err := group.Add(queue.KindLineProtocol, b.Points, b.Data); err != nil {
				t.Fatal(err)
			}
		}
	}
	room, err := q.Reserve(&group)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := q.Append(t.Context(), room, &group); err != nil {
		t.Fatal(err)
	}
}
