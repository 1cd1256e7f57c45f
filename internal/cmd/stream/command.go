package stream

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/apiclient"
	"github.com/tailrace-cdc/tailrace/internal/cmd/confirm"
	"github.com/tailrace-cdc/tailrace/internal/cmd/connect"
	"github.com/tailrace-cdc/tailrace/internal/cmd/show"
)

const long = `Look after the streams of a running server. A stream replicates one bucket to one remote; what is
written to the bucket waits in the stream's queue until the remote has it.

Streams go by their names or ids. The server is found by --host, or by the data directory next to you.`

const examples = `  # What there is, and how it does
  tailrace stream list

  # Replicate the bucket plant to an InfluxDB 1.x; bucket, remote and stream are made
  tailrace stream create up --bucket plant --remoteURL http://cloud.example:8086 --remoteBucket metrics

  # What the remote would not take, and once more
  tailrace stream deadletters list up
  tailrace stream deadletters replay up --all`

// Command returns the command with its subcommands.
func Command() *cobra.Command {
	f := &connect.Flags{}
	cmd := f.Group("stream", "List, make, change and look after streams", long, examples,
		listCommand(f), showCommand(f), createCommand(f), updateCommand(f),
		operateCommand(f, "pause", "Stop sending; writes are taken and wait, also over restarts", "paused"),
		operateCommand(f, "resume", "Send again", "resumed"),
		operateCommand(f, "flush", "Try the remote now, and not only after the delay", "flushed"),
		validateCommand(f), purgeCommand(f), deleteCommand(f), lettersCommand(f),
	)
	cmd.Aliases = []string{"streams"}
	return cmd
}

func operateCommand(f *connect.Flags, verb, short, done string) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " STREAM...", Short: short,
		Example: fmt.Sprintf("  tailrace stream %s up", verb),
		Args:    connect.Args(1, -1), ValidArgsFunction: connect.Complete(f, apiclient.Streams, -1),
	}
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		docs := []apiclient.Document[apiclient.Stream]{}
		err := connect.Each(s, apiclient.Streams, args, func(d apiclient.Document[apiclient.Stream]) error {
			now, err := s.Operate(cmd.Context(), d.Fields.ID, verb)
			if err == nil && !*asJSON {
				fmt.Fprintf(cmd.OutOrStdout(), "stream %s: %s\n", show.OneLine(now.Fields.Name, 0), done)
			}
			docs = append(docs, now)
			return err
		})
		if err == nil && *asJSON {
			err = show.JSON(cmd.OutOrStdout(), docs)
		}
		return err
	})
	return cmd
}

func validateCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "validate STREAM...", Short: "Try whether a stream could write to its remote; no point is written",
		Example: "  tailrace stream validate up && echo it works",
		Args:    connect.Args(1, -1), ValidArgsFunction: connect.Complete(f, apiclient.Streams, -1),
	}
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		return connect.Each(s, apiclient.Streams, args, func(d apiclient.Document[apiclient.Stream]) error {
			err := s.Validate(cmd.Context(), d.Fields.ID)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "stream %s: its remote takes writes\n", show.OneLine(d.Fields.Name, 0))
			}
			return err
		})
	})
	return cmd
}

func purgeCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "purge STREAM", Short: "Declare lost what waits in a stream's queue",
		Long: `Declare lost what waits in a stream's queue. The stream stays, and goes on with what is written from now
on. What is lost is counted, by the server's metrics too.`,
		Example: "  tailrace stream purge up\n  tailrace stream purge up --yes",
		Args:    connect.Args(1, 1), ValidArgsFunction: connect.Complete(f, apiclient.Streams, 1),
	}
	yes, asJSON := confirm.Flag(cmd), show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		d, err := connect.Find(s, apiclient.Streams, args[0])
		if err != nil {
			return err
		}
		name := show.OneLine(d.Fields.Name, 0)
		question := fmt.Sprintf("Purging stream %s loses the %s that wait in its queue, for good.", name, show.Bytes(d.Fields.RemainingBytesToBeSynced))
		if err := confirm.Ask(cmd, *yes, question); err != nil {
			return err
		}
		lost, err := s.Purge(cmd.Context(), d.Fields.ID)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return show.JSON(cmd.OutOrStdout(), lost)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "stream %s: %d points (%s) declared lost\n", name, lost.Points, show.Bytes(lost.Bytes))
		return nil
	})
	return cmd
}

func deleteCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete STREAM...", Short: "End streams for ever, with their queues",
		Long: `End streams for ever. What is queued is sent for a few seconds, if the remote takes it; what is left is
lost, and so are the stream's dead letters. Bucket and remote stay.`,
		Example: "  tailrace stream delete up\n  tailrace stream delete up down --yes",
		Args:    connect.Args(1, -1), ValidArgsFunction: connect.Complete(f, apiclient.Streams, -1),
	}
	yes := confirm.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		return connect.Each(s, apiclient.Streams, args, func(d apiclient.Document[apiclient.Stream]) error {
			name, letters := show.OneLine(d.Fields.Name, 0), ""
			if n := d.Fields.DeadLetters; n != nil && *n > 0 {
				letters = fmt.Sprintf(", and its %d dead letters", *n)
			}
			question := fmt.Sprintf("Deleting stream %s loses what its remote does not take at once of the %s in its queue%s.",
				name, show.Bytes(d.Fields.RemainingBytesToBeSynced), letters)
			if err := confirm.Ask(cmd, *yes, question); err != nil {
				return err
			}
			if err := apiclient.Streams.Delete(cmd.Context(), s.Client, d.Fields.ID); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "stream %s: deleted\n", name)
			return nil
		})
	})
	return cmd
}
