package logical

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestTapePassesTheSuite tests the sources that the loop is tested with.
func TestTapePassesTheSuite(t *testing.T) {
	t.Parallel()
	logicaltest.RunDialect(t, func(testing.TB) logicaltest.Source {
		source := &tape{txs: writes(rand.New(rand.NewPCG(1, 1)), 30), batch: 3}
		source.when = func(n int) time.Time { return time.Unix(int64(n), 0).UTC() }
		return logicaltest.Source{Transactions: 30, Open: func(testing.TB) logical.Dialect { return source }}
	})
}

func TestSnapshottedPassesTheSuite(t *testing.T) {
	t.Parallel()
	logicaltest.RunDialect(t, func(testing.TB) logicaltest.Source {
		source := &snapshotted{t: t, txs: writes(rand.New(rand.NewPCG(1, 1)), 30), from: 10, chunks: map[int]int{}, fail: func() error { return nil }, hurry: true}
		chunks := (len(source.rows()) + chunkRows - 1) / chunkRows
		return logicaltest.Source{Transactions: chunks + 20, Open: func(testing.TB) logical.Dialect { return source }}
	})
}
