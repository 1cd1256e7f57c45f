package connect

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/apiclient"
	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
)

// Group returns a command that has subcommands and does nothing by itself. Its flags are theirs too.
func (f *Flags) Group(use, short, long, example string, sub ...*cobra.Command) *cobra.Command {
	cmd := Parent(use, short, long, example, sub...)
	f.Bind(cmd.PersistentFlags())
	return cmd
}

// Parent returns a command that has subcommands and does nothing by itself.
func Parent(use, short, long, example string, sub ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return exit.Usage(errors.Errorf("unknown command %q; see '%s --help'", args[0], cmd.CommandPath()))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(sub...)
	return cmd
}

// Args wants a number of arguments, and says which if there are others.
func Args(atLeast, atMost int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= atLeast && (len(args) <= atMost || atMost < 0) {
			return nil
		}
		return exit.Usage(errors.Errorf("usage: %s; see '%s --help'", cmd.UseLine(), cmd.CommandPath()))
	}
}

// Run makes a command's function of one that uses a session.
func (f *Flags) Run(do func(cmd *cobra.Command, s *Session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := FromEnv(cmd.Flags()); err != nil {
			return err
		}
		s, err := f.Open(cmd.Context())
		if err != nil {
			return err
		}
		return s.Explain(do(cmd, s, args))
	}
}

// completeWithin bounds how long a shell waits for names.
const completeWithin = 2 * time.Second

// Complete completes arguments by the names of a kind, up to a number of them; a negative one is no limit. What
// goes wrong completes nothing.
func Complete[T any](f *Flags, k apiclient.Kind[T], most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return Names(f, cmd, k), cobra.ShellCompDirectiveNoFileComp
	}
}

// Names returns the names of all things of a kind.
func Names[T any](f *Flags, cmd *cobra.Command, k apiclient.Kind[T]) (names []string) {
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	if FromEnv(cmd.Flags()) != nil {
		return nil
	}
	s, err := f.Open(ctx)
	if err != nil {
		return nil
	}
	org, err := s.TheOrg()
	if err != nil {
		return nil
	}
	all, err := k.List(ctx, s.Client, org.ID)
	if err != nil {
		return nil
	}
	for _, d := range all {
		names = append(names, k.NameOf(&d.Fields))
	}
	return names
}

// Find returns the thing that the user names, by id or name.
func Find[T any](s *Session, k apiclient.Kind[T], ref string) (d apiclient.Document[T], err error) {
	org, err := s.TheOrg()
	if err != nil {
		return d, err
	}
	return k.Find(s.ctx, s.Client, org.ID, ref)
}

// All returns all things of a kind.
func All[T any](s *Session, k apiclient.Kind[T]) ([]apiclient.Document[T], error) {
	org, err := s.TheOrg()
	if err != nil {
		return nil, err
	}
	return k.List(s.ctx, s.Client, org.ID)
}

// Each does something with everything that the user names. All names are looked up before anything is done.
func Each[T any](s *Session, k apiclient.Kind[T], refs []string, do func(d apiclient.Document[T]) error) error {
	found := make([]apiclient.Document[T], len(refs))
	for i, ref := range refs {
		var err error
		if found[i], err = Find(s, k, ref); err != nil {
			return err
		}
	}
	for _, d := range found {
		if err := do(d); err != nil {
			return errors.WithMessagef(err, "%s %s", k.Word, k.NameOf(&d.Fields))
		}
	}
	return nil
}
