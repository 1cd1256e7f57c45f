// Package token has the commands about the tokens of a running server.
package token

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/apiclient"
	"github.com/tailrace-cdc/tailrace/internal/cmd/confirm"
	"github.com/tailrace-cdc/tailrace/internal/cmd/connect"
	"github.com/tailrace-cdc/tailrace/internal/cmd/show"
)

const long = `Look after the tokens of a running server, by their ids or descriptions. A token may write to one bucket
(--scope write), see everything of the organization (read), or change it too (manage). The operator's token,
in the file "token" of the data directory, is none of these, and may do everything.`

const examples = `  tailrace token create telegraf --scope write --bucket plant --to telegraf.token
  tailrace token list
  tailrace token disable telegraf`

// Command returns the command with its subcommands.
func Command() *cobra.Command {
	f := &connect.Flags{}
	cmd := f.Group("token", "List, make and withdraw tokens", long, examples,
		listCommand(f), showCommand(f), createCommand(f), updateCommand(f),
		statusCommand(f, "enable", "Accept tokens again", "active"), statusCommand(f, "disable", "Accept tokens no more, until they are enabled", "inactive"),
		deleteCommand(f))
	cmd.Aliases = []string{"tokens"}
	return cmd
}

// scopeOf says in short what a token may do.
func scopeOf(t apiclient.Token, buckets map[string]string) string {
	var parts []string
	for _, p := range t.Permissions {
		part := p.Action + " " + p.Resource.Type
		if id := p.Resource.ID; id != "" {
			name := buckets[id]
			if name == "" || p.Resource.Type != "buckets" {
				name = id
			}
			part = p.Action + " " + strings.TrimSuffix(p.Resource.Type, "s") + " " + name
		}
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	var kinds, writes int
	for _, p := range parts {
		if strings.HasPrefix(p, "read ") && strings.Count(p, " ") == 1 {
			kinds++
		}
		if strings.HasPrefix(p, "write ") && strings.HasSuffix(p, "s") && strings.Count(p, " ") == 1 {
			writes++
		}
	}
	switch {
	case kinds == 5 && writes == 5 && len(parts) == 10:
		return "manage"
	case kinds == 5 && len(parts) == 5:
		return "read"
	}
	return strings.Join(parts, ", ")
}

func bucketNames(s *connect.Session) (map[string]string, error) {
	all, err := connect.All(s, apiclient.Buckets)
	names := map[string]string{}
	for _, d := range all {
		names[d.Fields.ID] = d.Fields.Name
	}
	return names, err
}

func listCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List tokens; never the tokens themselves",
		Example: "  tailrace token list\n  tailrace token list --json | jq -r '.[].description'",
		Args:    connect.Args(0, 0),
	}
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, _ []string) error {
		all, err := connect.All(s, apiclient.Tokens)
		if err != nil {
			return err
		}
		if *asJSON {
			return show.JSON(cmd.OutOrStdout(), all)
		}
		buckets, err := bucketNames(s)
		if err != nil {
			return err
		}
		table := show.NewTable("DESCRIPTION", "STATUS", "MAY", "ID")
		for _, d := range all {
			table.Row(d.Fields.Description, d.Fields.Status, scopeOf(d.Fields, buckets), d.Fields.ID)
		}
		return table.Write(cmd.OutOrStdout(), "There are no tokens but the operator's. 'tailrace token create --help' shows how to make one.")
	})
	return cmd
}

func showCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show TOKEN", Short: "Show what a token may do; never the token itself",
		Example: "  tailrace token show telegraf",
		Args:    connect.Args(1, 1), ValidArgsFunction: connect.Complete(f, apiclient.Tokens, 1),
	}
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		d, err := connect.Find(s, apiclient.Tokens, args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return show.JSON(cmd.OutOrStdout(), d)
		}
		buckets, err := bucketNames(s)
		if err != nil {
			return err
		}
		return show.Facts(cmd.OutOrStdout(), "description", d.Fields.Description, "id", d.Fields.ID, "status", d.Fields.Status,
			"may", scopeOf(d.Fields, buckets), "created", show.Time(&d.Fields.CreatedAt))
	})
	return cmd
}

func tell(cmd *cobra.Command, d apiclient.Document[apiclient.Token], err error, asJSON bool, done string) error {
	switch {
	case err != nil:
		return err
	case asJSON:
		return show.JSON(cmd.OutOrStdout(), d)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "token %s: %s\n", show.OneLine(apiclient.Tokens.NameOf(&d.Fields), 0), done)
	return nil
}

func updateCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "update TOKEN DESCRIPTION", Short: "Give a token another description",
		Example: "  tailrace token update telegraf 'telegraf in hall 2'",
		Args:    connect.Args(2, 2), ValidArgsFunction: connect.Complete(f, apiclient.Tokens, 1),
	}
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		d, err := connect.Find(s, apiclient.Tokens, args[0])
		if err != nil {
			return err
		}
		d, err = apiclient.Tokens.Update(cmd.Context(), s.Client, d.Fields.ID, apiclient.Body{"description": args[1]})
		return tell(cmd, d, err, *asJSON, "updated")
	})
	return cmd
}

func statusCommand(f *connect.Flags, verb, short, status string) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " TOKEN...", Short: short,
		Example: fmt.Sprintf("  tailrace token %s telegraf", verb),
		Args:    connect.Args(1, -1), ValidArgsFunction: connect.Complete(f, apiclient.Tokens, -1),
	}
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		return connect.Each(s, apiclient.Tokens, args, func(d apiclient.Document[apiclient.Token]) error {
			d, err := apiclient.Tokens.Update(cmd.Context(), s.Client, d.Fields.ID, apiclient.Body{"status": status})
			return tell(cmd, d, err, false, status)
		})
	})
	return cmd
}

func deleteCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete TOKEN...", Short: "Withdraw tokens for good",
		Example: "  tailrace token delete telegraf --yes",
		Args:    connect.Args(1, -1), ValidArgsFunction: connect.Complete(f, apiclient.Tokens, -1),
	}
	yes := confirm.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		return connect.Each(s, apiclient.Tokens, args, func(d apiclient.Document[apiclient.Token]) error {
			name := show.OneLine(apiclient.Tokens.NameOf(&d.Fields), 0)
			if err := confirm.Ask(cmd, *yes, fmt.Sprintf("Deleting token %s shuts out whoever uses it.", name)); err != nil {
				return err
			}
			if err := apiclient.Tokens.Delete(cmd.Context(), s.Client, d.Fields.ID); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "token %s: deleted\n", name)
			return nil
		})
	})
	return cmd
}
