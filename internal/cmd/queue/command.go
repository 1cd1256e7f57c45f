package queue

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/queue"
)

// Command returns the command with its subcommands.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Look into queues on disk, check and repair them",
		Long: `Look into queues on disk, check and repair them.

DIR is the directory of one queue. The server must be stopped, or DIR a copy:
a queue that is in use is refused.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(statCommand(), verifyCommand(), dumpCommand(), repairCommand())
	for _, c := range append(cmd.Commands(), cmd) {
		c.SilenceUsage, c.SilenceErrors = true, true
		c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit.Usage(err) })
	}
	return cmd
}

// usageArgs marks what is wrong with the arguments as an error of usage.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error { return exit.Usage(check(cmd, args)) }
}

// config is for working on a directory that exists.
func config(dir string) (queue.Config, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return queue.Config{}, errors.Wrap(err, "queue")
	}
	if !info.IsDir() {
		return queue.Config{}, exit.Usage(errors.Errorf("queue: %s is not a directory", dir))
	}
	return queue.Config{Dir: dir}, nil
}

// failure adds what the operator can do.
func failure(err error) error {
	if hint := queue.Hint(err); hint != "" {
		return fmt.Errorf("%w (%s)", err, hint)
	}
	return err
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return errors.WithStack(enc.Encode(v))
}

func statCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stat DIR",
		Short: "Show what is in a queue",
		Long: `Show what is in a queue: how much is unsent and how old it is, where the cursor
stands, what was lost and why. Headers are read, payloads are not.`,
		Example: `  tailrace queue stat /var/lib/tailrace/replicationq/0a1b2c3d4e5f6789
  tailrace queue stat --json ./copy | jq .unsentBytes`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config(args[0])
			if err != nil {
				return err
			}
			rep, err := queue.Inspect(cfg, false)
			if err != nil {
				return failure(err)
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), rep)
			}
			return printReport(cmd.OutOrStdout(), rep, time.Now())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func verifyCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check every byte of a queue",
		Long: `Check every byte of a queue: headers, sums, order, and that payloads can be
decompressed. It changes nothing, and fails if there is anything to complain
about. What a crash cut short is no complaint: nobody was told that it is kept.`,
		Example: `  tailrace queue verify /var/lib/tailrace/replicationq/0a1b2c3d4e5f6789
  cp -a /var/lib/tailrace/replicationq/0a1b2c3d4e5f6789 ./copy && tailrace queue verify --json ./copy`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config(args[0])
			if err != nil {
				return err
			}
			rep, err := queue.Inspect(cfg, true)
			if err != nil {
				return failure(err)
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), rep)
			} else {
				err = printReport(cmd.OutOrStdout(), rep, time.Now())
			}
			if err == nil && len(rep.Problems) > 0 {
				err = errors.Errorf("queue: %s has %d problems; tailrace queue repair puts it in order", args[0], len(rep.Problems))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func dumpCommand() *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "dump DIR",
		Short: "Write the unsent content of a queue as line protocol",
		Long: `Write the unsent content of a queue to the standard output, as line protocol with
timestamps in nanoseconds, ready to be written to another server. Damaged blocks
are left out, and told about at the end.`,
		Example: `  tailrace queue dump /var/lib/tailrace/replicationq/0a1b2c3d4e5f6789 > rescued.lp
  tailrace queue dump --json --all ./copy | jq -r .payload`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config(args[0])
			if err != nil {
				return err
			}
			return dump(cmd.OutOrStdout(), cmd.ErrOrStderr(), cfg, asJSON, all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON object a block, with its sequence and time")
	cmd.Flags().BoolVar(&all, "all", false, "also what was sent or dropped and is still there")
	return cmd
}

func repairCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "repair DIR",
		Short: "Put a queue in order, without deleting anything",
		Long: `Put a queue in order. Nothing is deleted: files that do not belong there and
copies of damaged bytes go into the folder aside. What is missing is declared
lost, so that the stream can go on and the loss is counted. A server does the
same by itself when it meets damage.`,
		Example: `  cp -a /var/lib/tailrace/replicationq/0a1b2c3d4e5f6789 ./before
  tailrace queue repair /var/lib/tailrace/replicationq/0a1b2c3d4e5f6789`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config(args[0])
			if err != nil {
				return err
			}
			done, err := queue.Repair(cfg)
			if asJSON {
				if done == nil {
					done = []string{}
				}
				if jsonErr := writeJSON(cmd.OutOrStdout(), map[string]any{"done": done}); err == nil {
					err = jsonErr
				}
				return failure(err)
			}
			for _, line := range done {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			if err == nil && len(done) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "nothing to do")
			}
			return failure(err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}
