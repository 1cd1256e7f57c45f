// Package confirm asks before something is done that cannot be undone.
package confirm

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
)

// Flag defines --yes.
func Flag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("yes", false, "do not ask")
}

// ErrDeclined says that the user did not confirm.
var ErrDeclined = errors.New("not confirmed; nothing was done")

// Ask asks the user at the terminal whether to do what a sentence says. Without a terminal it refuses, and yes
// says that there is nothing to ask.
func Ask(cmd *cobra.Command, yes bool, sentence string) error {
	if yes {
		return nil
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return exit.Usage(errors.Errorf("%s Nobody can be asked here, so nothing was done: say --yes if it is meant", sentence))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s Type yes to go on: ", sentence)
	line, _ := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(strings.ToLower(line)) != "yes" {
		return ErrDeclined
	}
	return nil
}
