// Package bucket has the commands about the buckets of a running server.
package bucket

import (
	"fmt"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/apiclient"
	"github.com/tailrace-cdc/tailrace/internal/cmd/confirm"
	"github.com/tailrace-cdc/tailrace/internal/cmd/connect"
	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/show"
)

const long = `Look after the buckets of a running server. A bucket is a place to write to; nothing is stored there: its
streams replicate what is written, and without a stream writes are refused.`

// Command returns the command with its subcommands.
func Command() *cobra.Command {
	f := &connect.Flags{}
	cmd := f.Group("bucket", "List, make and change buckets", long,
		"  tailrace bucket list\n  tailrace bucket create plant",
		listCommand(f), showCommand(f), createCommand(f), updateCommand(f), deleteCommand(f))
	cmd.Aliases = []string{"buckets"}
	return cmd
}

// streamsOf returns the names of the streams of each bucket, by its id.
func streamsOf(s *connect.Session) (map[string][]string, error) {
	all, err := connect.All(s, apiclient.Streams)
	names := map[string][]string{}
	for _, d := range all {
		names[d.Fields.LocalBucketID] = append(names[d.Fields.LocalBucketID], d.Fields.Name)
	}
	return names, err
}

func listCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List buckets",
		Example: "  tailrace bucket list\n  tailrace bucket list --json | jq -r '.[].name'",
		Args:    connect.Args(0, 0),
	}
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, _ []string) error {
		all, err := connect.All(s, apiclient.Buckets)
		if err != nil {
			return err
		}
		if *asJSON {
			return show.JSON(cmd.OutOrStdout(), all)
		}
		streams, err := streamsOf(s)
		if err != nil {
			return err
		}
		table := show.NewTable("NAME", "STREAMS", "DESCRIPTION", "ID")
		for _, d := range all {
			table.Row(d.Fields.Name, strings.Join(streams[d.Fields.ID], ", "), d.Fields.Description, d.Fields.ID)
		}
		return table.Write(cmd.OutOrStdout(), "There are no buckets. 'tailrace bucket create NAME' makes one.")
	})
	return cmd
}

func showCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show BUCKET", Short: "Show a bucket",
		Example: "  tailrace bucket show plant",
		Args:    connect.Args(1, 1), ValidArgsFunction: connect.Complete(f, apiclient.Buckets, 1),
	}
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		d, err := connect.Find(s, apiclient.Buckets, args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return show.JSON(cmd.OutOrStdout(), d)
		}
		streams, err := streamsOf(s)
		if err != nil {
			return err
		}
		return show.Facts(cmd.OutOrStdout(), "name", d.Fields.Name, "id", d.Fields.ID, "description", d.Fields.Description,
			"streams", strings.Join(streams[d.Fields.ID], ", "))
	})
	return cmd
}

func tell(cmd *cobra.Command, d apiclient.Document[apiclient.Bucket], err error, asJSON bool, done string) error {
	switch {
	case err != nil:
		return err
	case asJSON:
		return show.JSON(cmd.OutOrStdout(), d)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "bucket %s: %s\n", show.OneLine(d.Fields.Name, 0), done)
	return nil
}

func createCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a bucket; it takes writes when it has a stream",
		Example: "  tailrace bucket create plant\n  tailrace bucket create telegraf/week --description 'a database and its policy, for clients of InfluxDB 1.x'",
		Args:    connect.Args(1, 1), ValidArgsFunction: cobra.NoFileCompletions,
	}
	description := cmd.Flags().String("description", "", "for people")
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		org, err := s.TheOrg()
		if err != nil {
			return err
		}
		d, err := apiclient.Buckets.Create(cmd.Context(), s.Client, apiclient.Body{"orgID": org.ID, "name": args[0], "description": *description})
		return tell(cmd, d, err, *asJSON, "created")
	})
	return cmd
}

func updateCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "update BUCKET", Short: "Change a bucket's name or description",
		Example: "  tailrace bucket update plant --name works",
		Args:    connect.Args(1, 1), ValidArgsFunction: connect.Complete(f, apiclient.Buckets, 1),
	}
	name := cmd.Flags().String("name", "", "another name; clients have to write to it then")
	description := cmd.Flags().String("description", "", "for people")
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		body := apiclient.Body{}
		if cmd.Flags().Changed("name") {
			body["name"] = *name
		}
		if cmd.Flags().Changed("description") {
			body["description"] = *description
		}
		if len(body) == 0 {
			return exit.Usage(errors.New("nothing to change: give --name or --description"))
		}
		d, err := connect.Find(s, apiclient.Buckets, args[0])
		if err != nil {
			return err
		}
		d, err = apiclient.Buckets.Update(cmd.Context(), s.Client, d.Fields.ID, body)
		return tell(cmd, d, err, *asJSON, "updated")
	})
	return cmd
}

func deleteCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete BUCKET...", Short: "Delete buckets, with their streams",
		Long: `Delete buckets, with their streams: what these have queued is sent for a few seconds, if their remotes take
it; what is left is lost.`,
		Example: "  tailrace bucket delete plant\n  tailrace bucket delete plant --yes",
		Args:    connect.Args(1, -1), ValidArgsFunction: connect.Complete(f, apiclient.Buckets, -1),
	}
	yes := confirm.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		streams, err := streamsOf(s)
		if err != nil {
			return err
		}
		return connect.Each(s, apiclient.Buckets, args, func(d apiclient.Document[apiclient.Bucket]) error {
			name, with := show.OneLine(d.Fields.Name, 0), ""
			if list := streams[d.Fields.ID]; len(list) > 0 {
				with = " with its streams (" + show.OneLine(strings.Join(list, ", "), 0) + ") and what is in their queues"
			}
			if err := confirm.Ask(cmd, *yes, fmt.Sprintf("Deleting bucket %s%s cannot be undone.", name, with)); err != nil {
				return err
			}
			if err := apiclient.Buckets.Delete(cmd.Context(), s.Client, d.Fields.ID); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "bucket %s: deleted\n", name)
			return nil
		})
	})
	return cmd
}
