package mode

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/internal/util/goldentest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCalmScenarios tells the controller's behaviour.
func TestCalmScenarios(t *testing.T) {
	t.Parallel()
	goldentest.Run(t, func() func(string) string { return (&script{}).run })
}
