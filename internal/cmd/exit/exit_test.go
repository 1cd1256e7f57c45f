package exit_test

import (
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
)

func TestCode(t *testing.T) {
	t.Parallel()
	require.Equal(t, exit.OK, exit.Code(nil))
	require.NoError(t, exit.Usage(nil))
	require.Equal(t, exit.Failure, exit.Code(errors.New("disk")))
	usage := errors.Wrap(exit.Usage(errors.New("no such flag")), "queue")
	require.Equal(t, exit.Misuse, exit.Code(usage))
	require.EqualError(t, usage, "queue: no such flag")
}
