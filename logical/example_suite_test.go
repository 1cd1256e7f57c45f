package logical_test

import (
	"fmt"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestExamplePassesTheSuite shows that the dialect of the example is a right one.
func TestExamplePassesTheSuite(t *testing.T) {
	t.Parallel()
	logicaltest.RunDialect(t, func(testing.TB) logicaltest.Source {
		var book orderBook
		for i := range 20 {
			book = append(book, fmt.Sprintf("%d status%d", i%3, i))
		}
		return logicaltest.Source{Transactions: len(book), Open: func(testing.TB) logical.Dialect { return &book }}
	})
}
