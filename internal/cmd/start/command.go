package start

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
)

// Builder makes a server from its configuration; its second result frees what the server holds. Logs
// go to the writer.
type Builder func(ctx context.Context, config Config, logs LogOutput) (*Server, func(), error)

// LogOutput is where logs are written.
type LogOutput io.Writer

const long = `Run the server: it takes InfluxDB writes, makes them durable in a queue per stream, and
replicates them.

On an empty data directory it needs no configuration: it makes a bucket "default" with one stream to
an embedded SQLite database, and a token, and prints where to write.

Ctrl-C (or SIGTERM) stops taking writes, lets what is in flight land for at most --gracePeriod, and
ends; what is left in the queues is sent after the next start. A second Ctrl-C ends at once, which
loses nothing either.

Every flag can be given as an environment variable too, as shown in brackets.`

const examples = `  # Take writes on the usual port, into ./tailrace-data/target.db
  tailrace start

  # Take writes from other machines, and keep the data elsewhere
  tailrace start --bindAddr 0.0.0.0:8086 --dataDir /var/lib/tailrace

  # Over HTTPS; a renewed certificate is taken without a restart
  tailrace start --bindAddr 0.0.0.0:8086 --tlsCertificate cert.pem --tlsPrivateKey key.pem

  # The address and the directory by environment variables
  TAILRACE_BIND_ADDR=0.0.0.0:8086 TAILRACE_DATA_DIR=/var/lib/tailrace tailrace start`

// Command returns the command.
func Command(version string, build Builder) *cobra.Command {
	config := Config{Version: version}
	cmd := &cobra.Command{
		Use: "start", Short: "Run the server", Long: long, Example: examples,
		Args: flags.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.FromEnv(cmd.Flags()); err != nil {
				return exit.Usage(err)
			}
			return exit.Usage(config.Validate())
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, free, err := build(cmd.Context(), config, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer free()
			return server.Run(cmd.Context(), func() { server.Greet(cmd.OutOrStdout()) })
		},
	}
	config.bind(cmd.Flags())
	flags.Document(cmd.Flags())
	return cmd
}
