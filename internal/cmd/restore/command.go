// Package restore is the command that makes a data directory of a backup.
package restore

import (
	"fmt"
	"io"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/backup"
	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
	"github.com/tailrace-cdc/tailrace/internal/cmd/show"
)

const long = `Make a data directory of a backup. The directory must be empty, or not exist. Every byte of the file is
checked before anything is written; until all is there, durably, the directory is refused by 'tailrace start'.

What is restored is a new installation, so that it does not take the streams of the old one away, which may
still run: targets know the two apart, and what is in the restored queues is sent again, with the same result.

--sameInstallation makes it the old one again: targets go on where that stopped. The old one must never run
again: the two would take every stream from each other, again and again.

A stream whose queue is not in the backup starts with an empty one, and says so ("queue was missing").`

const examples = `  # Look at what is in a backup
  tailrace restore --from monday.backup --check

  # Into a new directory
  tailrace restore --from monday.backup --dataDir /var/lib/tailrace
  tailrace start --dataDir /var/lib/tailrace

  # In the place of a machine that is gone
  tailrace restore --from monday.backup --dataDir /var/lib/tailrace --sameInstallation`

// Command returns the command.
func Command() *cobra.Command {
	var c backup.RestoreConfig
	var check, asJSON bool
	cmd := &cobra.Command{
		Use: "restore --from FILE", Short: "Make a data directory of a backup", Long: long, Example: examples,
		Args:    flags.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return exit.Usage(flags.FromEnv(cmd.Flags(), except...)) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.From == "" {
				return exit.Usage(errors.New("--from: name the backup"))
			}
			if check {
				m, err := backup.Verify(c.From)
				if err != nil {
					return err
				}
				return describe(cmd.OutOrStdout(), m, asJSON)
			}
			report, err := backup.Restore(cmd.Context(), c)
			if err != nil {
				return err
			}
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), report)
			}
			tell(cmd.OutOrStdout(), report, c)
			return nil
		},
	}
	set := cmd.Flags()
	set.StringVar(&c.From, "from", "", "the backup")
	set.StringVar(&c.Dir, "dataDir", "./tailrace-data", "the data directory that is made")
	set.StringVar(&c.QueueDir, "queueDir", "", "where the queues go; default is replicationq in the data directory")
	set.BoolVar(&c.SameInstallation, "sameInstallation", false, "be the installation that was backed up, which must never run again")
	set.BoolVar(&check, "check", false, "only check the backup, and say what is in it")
	set.BoolVar(&asJSON, "json", false, "write what is in it as JSON")
	flags.Document(set, except...)
	return cmd
}

// except are the flags that are given on the command line only: they belong to one backup.
var except = []string{"from", "sameInstallation", "check", "json"}

func describe(w io.Writer, m backup.Manifest, asJSON bool) error {
	if asJSON {
		return show.JSON(w, m)
	}
	var size int64
	for _, x := range m.Members {
		size += x.Size
	}
	if err := show.Facts(w, "made", show.Time(&m.CreatedAt), "by version", m.Version, "installation", m.Installation,
		"holds", show.Bytes(size), "with queues", show.YesNo(m.WithQueues), "with key", show.YesNo(m.WithKey)); err != nil {
		return err
	}
	table := show.NewTable("STREAM", "ID", "QUEUE")
	for _, s := range m.Streams {
		table.Row(s.Name, s.ID, show.YesNo(s.Queue))
	}
	return table.Write(w, "There are no streams in it.")
}

// tell says what there is now, and what is left to be done.
func tell(w io.Writer, r backup.Report, c backup.RestoreConfig) {
	fmt.Fprintf(w, "%s: restored %d streams\n", c.Dir, len(r.Streams))
	if r.RestoredAs == r.Installation {
		fmt.Fprintln(w, "It is the installation that was backed up: see that the old one never runs again.")
	} else {
		fmt.Fprintln(w, "It is a new installation: what is in its queues may be sent again to where it has been sent.")
	}
	if !r.WithKey {
		fmt.Fprintln(w, "The key is not in the backup: put secret.key into the directory, or give the remotes their secrets ('tailrace remote update').")
		fmt.Fprintln(w, "The operator gets a new token, in the file token, at the first start.")
	}
	missing := 0
	for _, s := range r.Streams {
		if !s.Queue {
			missing++
		}
	}
	if missing > 0 {
		fmt.Fprintf(w, "%d streams start with an empty queue, and say so: what was in the old ones is not in the backup.\n", missing)
	}
	if c.QueueDir != "" {
		fmt.Fprintf(w, "The queues are in %s: start with --queueDir.\n", c.QueueDir)
	}
}
