// Tailrace moves change streams along durable, named replication loops. README.md says what it does,
// ARCHITECTURE.md where things are.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/cmd/backup"
	"github.com/tailrace-cdc/tailrace/internal/cmd/bucket"
	"github.com/tailrace-cdc/tailrace/internal/cmd/demo"
	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	importcmd "github.com/tailrace-cdc/tailrace/internal/cmd/import"
	"github.com/tailrace-cdc/tailrace/internal/cmd/preflight"
	"github.com/tailrace-cdc/tailrace/internal/cmd/queue"
	"github.com/tailrace-cdc/tailrace/internal/cmd/remote"
	"github.com/tailrace-cdc/tailrace/internal/cmd/restore"
	"github.com/tailrace-cdc/tailrace/internal/cmd/start"
	"github.com/tailrace-cdc/tailrace/internal/cmd/stream"
	"github.com/tailrace-cdc/tailrace/internal/cmd/token"
)

// version is set by the linker.
var version = "unknown"

func main() {
	ctx, stop := untilSignal(context.Background(), os.Stderr)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil && strings.HasPrefix(err.Error(), "unknown command") {
		err = exit.Usage(err) // cobra has no type for it
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tailrace:", err)
	}
	os.Exit(exit.Code(err))
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "tailrace",
		Short: "Durable replication loops: InfluxDB writes into databases, in order and exactly once",
		Example: `  # Watch the main job on this machine
  tailrace demo

  # Run the server
  tailrace start

  # Beside it: replicate a bucket to another InfluxDB, and see how that does
  tailrace stream create --bucket plant --remoteURL http://cloud.example:8086 --remoteBucket metrics
  tailrace stream list`,
		Version:       version,
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit.Usage(fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath()))
	})
	root.AddCommand(
		start.Command(version, initServer), demo.Command(initServer), importcmd.Command(), queue.Command(), preflight.Command(),
		stream.Command(), remote.Command(), bucket.Command(), token.Command(), backup.Command(version), restore.Command(),
	)
	return root
}

// untilSignal returns a context that ends at the first SIGINT, SIGTERM or SIGHUP; the second ends the process
// at once.
func untilSignal(ctx context.Context, w io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for range signals {
			if ctx.Err() != nil {
				fmt.Fprintln(w, "tailrace: stopping at once")
				os.Exit(130)
			}
			fmt.Fprintln(w, "\ntailrace: stopping; once more to stop at once")
			cancel()
		}
	}()
	return ctx, cancel
}
