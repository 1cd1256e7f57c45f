// Package remote has the commands about the remotes of a running server.
package remote

import (
	"fmt"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/apiclient"
	"github.com/tailrace-cdc/tailrace/internal/cmd/confirm"
	"github.com/tailrace-cdc/tailrace/internal/cmd/connect"
	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
	"github.com/tailrace-cdc/tailrace/internal/cmd/show"
)

const long = `Look after the remotes of a running server. A remote says how to reach a target, such as another InfluxDB or
a database; streams send to it.

Its token or password is stored encrypted, and never shown. It is read from the standard input, a file, or the
environment.`

const examples = `  tailrace remote list
  tailrace remote create cloud --url https://cloud.example:8086 --remoteOrg acme --remoteToken-stdin < token.txt`

// Command returns the command with its subcommands.
func Command() *cobra.Command {
	f := &connect.Flags{}
	cmd := f.Group("remote", "List, make and change remotes", long, examples,
		listCommand(f), showCommand(f), createCommand(f), updateCommand(f), deleteCommand(f))
	cmd.Aliases = []string{"remotes"}
	return cmd
}

func listCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List remotes",
		Example: "  tailrace remote list\n  tailrace remote list --json | jq -r '.[].remoteURL'",
		Args:    connect.Args(0, 0),
	}
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, _ []string) error {
		all, err := connect.All(s, apiclient.Remotes)
		if err != nil {
			return err
		}
		if *asJSON {
			return show.JSON(cmd.OutOrStdout(), all)
		}
		table := show.NewTable("NAME", "ADDRESS", "SECRET", "ID")
		for _, d := range all {
			table.Row(d.Fields.Name, d.Fields.RemoteURL, secret(d.Fields), d.Fields.ID)
		}
		return table.Write(cmd.OutOrStdout(), "There are no remotes. 'tailrace remote create --help' shows how to make one.")
	})
	return cmd
}

func secret(r apiclient.Remote) string {
	if r.SecretMissing {
		return "missing"
	}
	return "ok"
}

func showCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show REMOTE", Short: "Show a remote",
		Example: "  tailrace remote show cloud",
		Args:    connect.Args(1, 1), ValidArgsFunction: connect.Complete(f, apiclient.Remotes, 1),
	}
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		d, err := connect.Find(s, apiclient.Remotes, args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return show.JSON(cmd.OutOrStdout(), d)
		}
		advice := ""
		if d.Fields.SecretMissing {
			advice = "put the key file back, or give the secret again with 'tailrace remote update'"
		}
		return show.Facts(cmd.OutOrStdout(), "name", d.Fields.Name, "id", d.Fields.ID, "description", d.Fields.Description,
			"address", d.Fields.RemoteURL, "organization", d.Fields.RemoteOrgID, "takes any certificate", show.YesNo(d.Fields.AllowInsecureTLS),
			"secret", secret(d.Fields), "advice", advice)
	})
	return cmd
}

// settings are the flags that create and update have in common.
type settings struct {
	url, org, description string
	insecure              bool
	token                 flags.Secret
}

func (x *settings) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&x.url, "url", "", "the address: http(s)://host:8086, postgres://user@host/database or sqlite:FILE")
	set.StringVar(&x.org, "remoteOrg", "", "the organization there, by id or name, where it needs one")
	set.StringVar(&x.description, "description", "", "for people")
	set.BoolVar(&x.insecure, "allowInsecureTLS", false, "take any certificate")
	x.token.Bind(cmd, "remoteToken", "its token or password")
}

func (x *settings) body(cmd *cobra.Command) (apiclient.Body, error) {
	body := apiclient.Body{}
	for flag, field := range map[string]struct {
		name  string
		value any
	}{
		"url": {"remoteURL", x.url}, "remoteOrg": {"remoteOrgID", x.org}, "description": {"description", x.description},
		"allowInsecureTLS": {"allowInsecureTLS", x.insecure},
	} {
		if cmd.Flags().Changed(flag) {
			body[field.name] = field.value
		}
	}
	token, given, err := x.token.Read(cmd)
	if given {
		body["remoteAPIToken"] = token
	}
	return body, err
}

func createCommand(f *connect.Flags) *cobra.Command {
	var x settings
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a remote; it need not be reachable",
		Example: `  tailrace remote create cloud --url https://cloud.example:8086 --remoteOrg acme --remoteToken-stdin < token.txt
  TAILRACE_REMOTE_TOKEN=secret tailrace remote create warehouse --url postgres://tailrace@db.example/metrics`,
		Args: connect.Args(1, 1), ValidArgsFunction: cobra.NoFileCompletions,
	}
	x.bind(cmd)
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		if x.url == "" {
			return exit.Usage(errors.New("--url: give the remote's address"))
		}
		body, err := x.body(cmd)
		if err != nil {
			return err
		}
		org, err := s.TheOrg()
		if err != nil {
			return err
		}
		body["orgID"], body["name"] = org.ID, args[0]
		d, err := apiclient.Remotes.Create(cmd.Context(), s.Client, body)
		return tell(cmd, d, err, *asJSON, "created")
	})
	return cmd
}

func updateCommand(f *connect.Flags) *cobra.Command {
	var x settings
	cmd := &cobra.Command{
		Use: "update REMOTE", Short: "Change a remote; its streams use it as it is then, at once",
		Long: `Change a remote; its streams use it as it is then, at once. Where the address changes, the secret is to be
given again, so that it is sent to nobody for whom it was not meant.`,
		Example: `  tailrace remote update cloud --remoteToken-stdin < token.txt
  tailrace remote update cloud --url https://cloud2.example:8086 --remoteToken-stdin < token.txt`,
		Args: connect.Args(1, 1), ValidArgsFunction: connect.Complete(f, apiclient.Remotes, 1),
	}
	name := cmd.Flags().String("name", "", "another name")
	x.bind(cmd)
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		body, err := x.body(cmd)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("name") {
			body["name"] = *name
		}
		if len(body) == 0 {
			return exit.Usage(errors.New("nothing to change: give a flag; see 'tailrace remote update --help'"))
		}
		d, err := connect.Find(s, apiclient.Remotes, args[0])
		if err != nil {
			return err
		}
		d, err = apiclient.Remotes.Update(cmd.Context(), s.Client, d.Fields.ID, body)
		return tell(cmd, d, err, *asJSON, "updated")
	})
	return cmd
}

func tell(cmd *cobra.Command, d apiclient.Document[apiclient.Remote], err error, asJSON bool, done string) error {
	switch {
	case err != nil:
		return err
	case asJSON:
		return show.JSON(cmd.OutOrStdout(), d)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "remote %s: %s\n", show.OneLine(d.Fields.Name, 0), done)
	return nil
}

func deleteCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete REMOTE...", Short: "Delete remotes that no stream uses",
		Example: "  tailrace remote delete cloud --yes",
		Args:    connect.Args(1, -1), ValidArgsFunction: connect.Complete(f, apiclient.Remotes, -1),
	}
	yes := confirm.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		return connect.Each(s, apiclient.Remotes, args, func(d apiclient.Document[apiclient.Remote]) error {
			name := show.OneLine(d.Fields.Name, 0)
			if err := confirm.Ask(cmd, *yes, fmt.Sprintf("Deleting remote %s forgets its secret.", name)); err != nil {
				return err
			}
			if err := apiclient.Remotes.Delete(cmd.Context(), s.Client, d.Fields.ID); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "remote %s: deleted\n", name)
			return nil
		})
	})
	return cmd
}
