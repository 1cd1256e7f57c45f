package stream

import (
	"fmt"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/apiclient"
	"github.com/tailrace-cdc/tailrace/internal/cmd/connect"
	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/show"
)

func updateCommand(f *connect.Flags) *cobra.Command {
	var x settings
	cmd := &cobra.Command{
		Use: "update STREAM", Short: "Change a stream's settings, while it runs",
		Long: `Change a stream's settings, while it runs. No write is lost. Flags that are not given leave their
settings; --reset gives settings back to the server's flags. Of a filter, the lists that are given replace
those that there are, and an empty one ('') removes it.`,
		Example: `  tailrace stream update up --maxQueueSize 1GiB --onReject deadLetter
  tailrace stream update up --excludeMeasurements 'debug*' --includeTags ''
  tailrace stream update up --reset filter,fanShards`,
		Args: connect.Args(1, 1), ValidArgsFunction: connect.Complete(f, apiclient.Streams, 1),
	}
	set := cmd.Flags()
	name := set.String("name", "", "another name")
	remote := set.String("remote", "", "another remote, by id or name")
	back := set.StringSlice("reset", nil, "settings to give back to the server's: "+strings.Join(resettableNames(), ", "))
	validate := set.Bool("validate", false, "try the remote first, and change nothing if it does not work")
	x.bind(cmd)
	asJSON := show.Flag(cmd)
	completeFlags(f, cmd)
	_ = cmd.RegisterFlagCompletionFunc("reset", cobra.FixedCompletions(resettableNames(), cobra.ShellCompDirectiveNoFileComp)) // it has none yet
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		d, err := connect.Find(s, apiclient.Streams, args[0])
		if err != nil {
			return err
		}
		body, err := x.body(cmd, d.Fields.Filter)
		if err != nil {
			return err
		}
		if err := reset(body, *back); err != nil {
			return err
		}
		if set.Changed("name") {
			body["name"] = *name
		}
		if *remote != "" {
			r, err := connect.Find(s, apiclient.Remotes, *remote)
			if err != nil {
				return err
			}
			body["remoteID"] = r.Fields.ID
		}
		if len(body) == 0 {
			return exit.Usage(errors.New("nothing to change: give a flag; see 'tailrace stream update --help'"))
		}
		if *validate {
			if err := s.ValidateChange(cmd.Context(), d.Fields.ID, body); err != nil {
				return err
			}
		}
		if d, err = apiclient.Streams.Update(cmd.Context(), s.Client, d.Fields.ID, body); err != nil {
			return err
		}
		if *asJSON {
			return show.JSON(cmd.OutOrStdout(), d)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "stream %s: updated\n", show.OneLine(d.Fields.Name, 0))
		return nil
	})
	return cmd
}
