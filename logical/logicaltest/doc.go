// Package logicaltest is the conformance suite of targets: what [logical.Target] promises, as tests
// that every implementation passes.
//
//	func TestConformance(t *testing.T) {
//		logicaltest.RunTarget(t, open, logicaltest.Options{Read: read, CreateTable: create, Another: another})
//	}
//
// The suite never looks at the target through the code under test: the options bring functions that
// read and make tables by other means.
//
// Random tests print their seed; TAILRACE_SEED=N repeats one. TAILRACE_SOAK=1 runs them at full
// counts.
package logicaltest
