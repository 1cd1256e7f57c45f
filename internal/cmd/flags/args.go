package flags

import (
	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
)

// NoArgs refuses arguments, as an error of usage.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return exit.Usage(errors.Errorf("%s takes no arguments, but was given %q; see '%s --help'", cmd.CommandPath(), args[0], cmd.CommandPath()))
}
