package stream

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/apiclient"
	"github.com/tailrace-cdc/tailrace/internal/cmd/confirm"
	"github.com/tailrace-cdc/tailrace/internal/cmd/connect"
	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/show"
)

type letter = apiclient.Document[apiclient.DeadLetter]

func lettersCommand(f *connect.Flags) *cobra.Command {
	cmd := connect.Parent("deadletters", "Look at what remotes would not take, and try it again",
		`Look at what a stream's remote would never accept. Each dead letter is a point, with the remote's reason.
When the reason is gone, 'replay' writes it again; what is refused again stays.`,
		"  tailrace stream deadletters list up\n  tailrace stream deadletters replay up --all",
		listLettersCommand(f), showLetterCommand(f),
		handleCommand(f, "replay", "Write dead letters again; what is refused again stays", false),
		handleCommand(f, "drop", "Remove dead letters for good", true),
	)
	cmd.Aliases = []string{"deadletter"}
	return cmd
}

func listLettersCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list STREAM", Aliases: []string{"ls"}, Short: "List dead letters, the oldest first",
		Example: `  tailrace stream deadletters list up
  tailrace stream deadletters list up --limit 0 --json | jq -r '.[].payload'`,
		Args: connect.Args(1, 1), ValidArgsFunction: connect.Complete(f, apiclient.Streams, 1),
	}
	limit := cmd.Flags().Int("limit", 50, "the most to list; 0 is all")
	after := cmd.Flags().Int64("after", 0, "only those with a greater id")
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		if *limit < 0 {
			return exit.Usage(errors.Errorf("--limit: %d is negative; 0 is all", *limit))
		}
		d, err := connect.Find(s, apiclient.Streams, args[0])
		if err != nil {
			return err
		}
		letters, more := []letter{}, false
		err = s.Letters(cmd.Context(), d.Fields.ID, *after, func(l letter) bool {
			if more = *limit > 0 && len(letters) == *limit; !more {
				letters = append(letters, l)
			}
			return !more
		})
		if err != nil {
			return err
		}
		if *asJSON {
			return show.JSON(cmd.OutOrStdout(), letters)
		}
		table := show.NewTable("ID", "TIME", "MEASUREMENT", "REASON", "POINT")
		for _, l := range letters {
			x := l.Fields
			table.Row(strconv.FormatInt(x.ID, 10), x.Time.Local().Format(time.DateTime), x.Table, x.Reason, x.Payload)
		}
		if err := table.Write(cmd.OutOrStdout(), "There are no dead letters."); err != nil {
			return err
		}
		if more {
			fmt.Fprintf(cmd.ErrOrStderr(), "There are more: --after %d, or --limit 0\n", letters[len(letters)-1].Fields.ID)
		}
		return nil
	})
	return cmd
}

func showLetterCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show STREAM ID", Short: "Show all of one dead letter",
		Example: "  tailrace stream deadletters show up 17",
		Args:    connect.Args(2, 2), ValidArgsFunction: connect.Complete(f, apiclient.Streams, 1),
	}
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		ids, err := letterIDs(args[1:])
		if err != nil {
			return err
		}
		d, err := connect.Find(s, apiclient.Streams, args[0])
		if err != nil {
			return err
		}
		var found *letter
		err = s.Letters(cmd.Context(), d.Fields.ID, ids[0]-1, func(l letter) bool {
			if l.Fields.ID == ids[0] {
				found = &l
			}
			return false
		})
		switch {
		case err != nil:
			return err
		case found == nil:
			return errors.Errorf("stream %s has no dead letter %d; 'tailrace stream deadletters list' shows what there is", args[0], ids[0])
		case *asJSON:
			return show.JSON(cmd.OutOrStdout(), found)
		}
		x := found.Fields
		return show.Facts(cmd.OutOrStdout(), "id", args[1], "time", show.Time(&x.Time), "measurement", x.Table, "operation", x.Operation,
			"reason", x.Reason, "point", x.Payload)
	})
	return cmd
}

// handleCommand replays letters, or drops them.
func handleCommand(f *connect.Flags, verb, short string, ask bool) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " STREAM {ID... | --all}", Short: short,
		Example: fmt.Sprintf("  tailrace stream deadletters %s up 17 18\n  tailrace stream deadletters %s up --all", verb, verb),
		Args:    connect.Args(1, -1), ValidArgsFunction: connect.Complete(f, apiclient.Streams, 1),
	}
	all := cmd.Flags().Bool("all", false, "all that there are")
	yes := new(bool)
	if ask {
		yes = confirm.Flag(cmd)
	}
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		ids, err := letterIDs(args[1:])
		if err != nil {
			return err
		}
		if *all == (len(ids) > 0) {
			return exit.Usage(errors.Errorf("give the ids of dead letters, or --all; see '%s --help'", cmd.CommandPath()))
		}
		d, err := connect.Find(s, apiclient.Streams, args[0])
		if err != nil {
			return err
		}
		name := show.OneLine(d.Fields.Name, 0)
		if ask {
			which := fmt.Sprintf("%d dead letters", len(ids))
			if *all {
				which = "all dead letters"
			}
			if err := confirm.Ask(cmd, *yes, fmt.Sprintf("Dropping %s of stream %s loses their points, for good.", which, name)); err != nil {
				return err
			}
		}
		n, err := s.HandleLetters(cmd.Context(), d.Fields.ID, verb, ids)
		if err != nil {
			return err
		}
		if *asJSON {
			return show.JSON(cmd.OutOrStdout(), map[string]int{"count": n})
		}
		done := map[string]string{"replay": "written", "drop": "dropped"}[verb]
		fmt.Fprintf(cmd.OutOrStdout(), "stream %s: %d dead letters %s\n", name, n, done)
		if len(ids) > n {
			return errors.Errorf("%d of the %d ids are of no dead letter (any more)", len(ids)-n, len(ids))
		}
		return nil
	})
	return cmd
}

func letterIDs(args []string) (ids []int64, err error) {
	for _, a := range args {
		id, err := strconv.ParseInt(a, 10, 64)
		if err != nil || id < 1 {
			return nil, exit.Usage(errors.Errorf("%q is no id of a dead letter, which is a number", a))
		}
		ids = append(ids, id)
	}
	return ids, nil
}
