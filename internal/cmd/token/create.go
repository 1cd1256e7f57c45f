package token

import (
	"fmt"
	"os"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/apiclient"
	"github.com/tailrace-cdc/tailrace/internal/cmd/connect"
	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/show"
)

const createLong = `Make a token. The server stores its hash only, so this is the one time that it can be had: it is written to
a new file that only you can read. With "--to -" it goes to the standard output, alone in a line, for another
program to take; it is never shown otherwise.`

const createExamples = `  tailrace token create telegraf --scope write --bucket plant --to telegraf.token
  tailrace token create dashboard --scope read --to dashboard.token
  tailrace token create deploy --scope manage --to - | vault kv put secret/tailrace token=-`

func createCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create DESCRIPTION", Short: "Make a token", Long: createLong, Example: createExamples,
		Args: connect.Args(1, 1), ValidArgsFunction: cobra.NoFileCompletions,
	}
	set := cmd.Flags()
	scope := set.String("scope", "", "what it may do: write (to --bucket), read or manage (everything of the organization)")
	bucket := set.String("bucket", "", "the bucket that --scope write is for, by id or name")
	to := set.String("to", "", "the new file to write the token to; - is the standard output")
	asJSON := show.Flag(cmd)
	_ = cmd.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions([]string{"write", "read", "manage"}, cobra.ShellCompDirectiveNoFileComp)) // it has none yet
	_ = cmd.RegisterFlagCompletionFunc("bucket", connect.Complete(f, apiclient.Buckets, -1))
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		switch {
		case *scope != "write" && *scope != "read" && *scope != "manage":
			return exit.Usage(errors.New("--scope: give write, read or manage"))
		case (*scope == "write") != (*bucket != ""):
			return exit.Usage(errors.New("--scope write and --bucket go together"))
		case *to == "":
			return exit.Usage(errors.New("--to: name a new file for the token; it can be had only now"))
		case *to == "-" && *asJSON:
			return exit.Usage(errors.New("--json and --to - would share the standard output; name a file with --to"))
		}
		org, err := s.TheOrg()
		if err != nil {
			return err
		}
		body := apiclient.Body{"orgID": org.ID, "description": args[0], "scope": *scope}
		if *bucket != "" {
			b, err := connect.Find(s, apiclient.Buckets, *bucket)
			if err != nil {
				return err
			}
			body["bucketID"] = b.Fields.ID
		}
		out := os.Stdout
		if *to != "-" {
			// Before it is made: a token that cannot be kept would be of no use to anybody.
			if out, err = os.OpenFile(*to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
				return errors.Wrap(err, "--to: name a new file")
			}
		}
		d, secret, err := s.CreateToken(cmd.Context(), body)
		if err == nil {
			_, err = fmt.Fprintln(out, secret)
		}
		if *to == "-" {
			return errors.WithStack(err)
		}
		if closed := out.Close(); err == nil {
			err = errors.Wrap(closed, "--to")
		}
		if err != nil {
			_ = os.Remove(*to) // it holds no token
			return err
		}
		if *asJSON {
			return show.JSON(cmd.OutOrStdout(), d)
		}
		return tell(cmd, d, nil, false, "created, and written to "+*to)
	})
	return cmd
}
