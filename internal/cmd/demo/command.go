// Package demo is the command that shows the main job on this machine: a server in a temporary
// directory, a backlog of generated points, live measurements, and at the end what the target holds,
// counted and compared with what was acknowledged.
package demo

import (
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
	"github.com/tailrace-cdc/tailrace/internal/cmd/start"
)

// Options are the flags.
type Options struct {
	// Duration is how long the demo runs before it ends by itself.
	Duration time.Duration
	// TargetConn is where the points go; empty for the embedded SQLite.
	TargetConn string
	// Keep keeps the directory, and what is in the target.
	Keep bool
	// Verbose shows the server's log.
	Verbose bool
}

const long = `Show the main job, with nothing but this binary. A server is started in a temporary directory with the
embedded SQLite target. While its stream is paused, as if the network were away, a backlog of some 500,000
generated points is written to it over HTTP, and live measurements of this machine flow in. Then the stream
is resumed: what waits is stale, so the loop fans out (backfill); when it has caught up, it becomes serial,
and each write is one transaction.

At the end the target is asked, with SQL, what it holds, and the count is compared with what was
acknowledged. The exit status is 1 if a point is missing.

With --targetConn the points go to PostgreSQL, into a schema of their own that is dropped at the end.`

const examples = `  # Watch it
  tailrace demo

  # Look at the database afterwards
  tailrace demo --keep

  # Watch it in PostgreSQL
  tailrace demo --targetConn postgres://postgres@localhost/postgres`

// Command returns the command.
func Command(build start.Builder) *cobra.Command {
	var options Options
	cmd := &cobra.Command{
		Use: "demo", Short: "Show the main job on this machine", Long: long, Example: examples,
		Args: flags.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if options.Duration < time.Second {
				return exit.Usage(errors.Errorf("--duration: %s is too short; give at least 1s", options.Duration))
			}
			dir, err := os.MkdirTemp("", "tailrace-demo-")
			if err != nil {
				return errors.Wrap(err, "a temporary directory cannot be made")
			}
			if !options.Keep {
				defer func() {
					if bad := os.RemoveAll(dir); err == nil {
						err = errors.WithStack(bad)
					}
				}()
			}
			d := demo{options: options, dir: dir, build: build, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().DurationVar(&options.Duration, "duration", 30*time.Second, "end by itself after this time")
	cmd.Flags().StringVar(&options.TargetConn, "targetConn", "", "show it in this database (postgres://…) instead of the embedded SQLite")
	cmd.Flags().BoolVar(&options.Keep, "keep", false, "keep the directory and the tables, and say how to look at them")
	cmd.Flags().BoolVarP(&options.Verbose, "verbose", "v", false, "show the server's log")
	return cmd
}
