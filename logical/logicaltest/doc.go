// Package logicaltest has the conformance suites of targets and of dialects: what [logical.Target] and
// [logical.Dialect] promise, as tests that every implementation passes.
//
//	func TestTarget(t *testing.T) {
//		logicaltest.RunTarget(t, open, logicaltest.Options{Read: read, CreateTable: create, Another: another})
//	}
//
//	func TestDialect(t *testing.T) {
//		logicaltest.RunDialect(t, func(t testing.TB) logicaltest.Source {
//			file := write(t, 20) // transactions
//			return logicaltest.Source{Transactions: 20, Open: func(testing.TB) logical.Dialect { return open(file) }}
//		})
//	}
//
// The suite of targets never looks at the target through the code under test: the options bring functions
// that read and make tables by other means. That of dialects plays the loop's part, and compares what a
// dialect says that is cut off, rolled back, or begun anew from any stamp, with what one says that is left
// in peace. Of the interfaces beside Dialect it tests those that the dialect implements.
//
// Random tests print their seed; TAILRACE_SEED=N repeats one. TAILRACE_SOAK=1 runs them at full
// counts.
package logicaltest
