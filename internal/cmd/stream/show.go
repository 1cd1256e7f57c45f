package stream

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/apiclient"
	"github.com/tailrace-cdc/tailrace/internal/cmd/connect"
	"github.com/tailrace-cdc/tailrace/internal/cmd/show"
)

func listCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List streams, and how they do",
		Example: `  tailrace stream list
  tailrace stream list --bucket plant
  tailrace stream list --json | jq -r '.[] | select(.stalled) | .name'`,
		Args: connect.Args(0, 0),
	}
	bucket := cmd.Flags().String("bucket", "", "only those of this bucket")
	remote := cmd.Flags().String("remote", "", "only those to this remote")
	asJSON := show.Flag(cmd)
	completeFlags(f, cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, _ []string) error {
		all, err := connect.All(s, apiclient.Streams)
		if err != nil {
			return err
		}
		names, err := lookUp(s)
		if err != nil {
			return err
		}
		chosen := []apiclient.Document[apiclient.Stream]{}
		for _, d := range all {
			if names.chosen(d.Fields.LocalBucketID, *bucket) && names.chosen(d.Fields.RemoteID, *remote) {
				chosen = append(chosen, d)
			}
		}
		if *asJSON {
			return show.JSON(cmd.OutOrStdout(), chosen)
		}
		table := show.NewTable("NAME", "BUCKET", "REMOTE", "STATE", "WAITING", "LAG", "LETTERS", "LOST")
		for _, d := range chosen {
			x := d.Fields
			table.Row(x.Name, names[x.LocalBucketID], names[x.RemoteID], state(x), show.Bytes(x.RemainingBytesToBeSynced),
				show.Seconds(x.LagSeconds), number(x.DeadLetters), count(x.Lost))
		}
		return table.Write(cmd.OutOrStdout(), "There are no streams. 'tailrace stream create --help' shows how to make one.")
	})
	return cmd
}

func showCommand(f *connect.Flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show STREAM", Short: "Show how a stream does, and its settings",
		Example: "  tailrace stream show up\n  tailrace stream show up --json | jq .state",
		Args:    connect.Args(1, 1), ValidArgsFunction: connect.Complete(f, apiclient.Streams, 1),
	}
	asJSON := show.Flag(cmd)
	cmd.RunE = f.Run(func(cmd *cobra.Command, s *connect.Session, args []string) error {
		d, err := connect.Find(s, apiclient.Streams, args[0])
		if err != nil {
			return err
		}
		return print(cmd, s, d, *asJSON)
	})
	return cmd
}

// print shows all of a stream.
func print(cmd *cobra.Command, s *connect.Session, d apiclient.Document[apiclient.Stream], asJSON bool) error {
	if asJSON {
		return show.JSON(cmd.OutOrStdout(), d)
	}
	names, err := lookUp(s)
	if err != nil {
		return err
	}
	x := d.Fields
	into := x.RemoteBucketName
	if x.RemoteBucketID != "" {
		into = x.RemoteBucketID
	}
	maxAge := "none"
	if x.MaxAgeSeconds > 0 {
		maxAge = (time.Duration(x.MaxAgeSeconds) * time.Second).String()
	}
	var lost []string
	for _, reason := range slices.Sorted(maps.Keys(x.LostByReason)) {
		lost = append(lost, fmt.Sprintf("%d %s", x.LostByReason[reason], reason))
	}
	pairs := []string{
		"name", x.Name, "id", x.ID, "description", x.Description,
		"bucket", names[x.LocalBucketID], "remote", names[x.RemoteID], "remote bucket", into,
		"", "",
		"state", state(x), "reason", x.StateReason, "advice", x.Advice, "notice", x.Notice, "mode", x.Mode,
		"waiting", show.Bytes(x.RemainingBytesToBeSynced), "lag", show.Seconds(x.LagSeconds), "on disk", show.Bytes(x.CurrentQueueSizeBytes),
		"dead letters", number(x.DeadLetters), "lost points", strings.Join(lost, ", "), "filtered points", count(x.FilteredPoints),
		"last success", show.Time(x.LastSuccessAt), "last error", x.LatestErrorMessage, "last error at", show.Time(x.LatestErrorAt),
		"max queue size", show.Bytes(x.MaxQueueSizeBytes), "max age", maxAge, "queue full policy", x.QueueFullPolicy,
		"on reject", x.OnReject, "backfill window", x.BackfillWindow, "fan shards", strconv.Itoa(x.FanShards),
		"bytes in flight", show.Bytes(x.BytesInFlight),
	}
	if fl := x.Filter; fl != nil {
		pairs = append(pairs,
			"include measurements", strings.Join(fl.Measurements.Include, ", "), "exclude measurements", strings.Join(fl.Measurements.Exclude, ", "),
			"include tags", strings.Join(fl.Tags.Include, ", "), "exclude tags", strings.Join(fl.Tags.Exclude, ", "))
	}
	return show.Facts(cmd.OutOrStdout(), pairs...)
}

// nameOf has the names of buckets and remotes by their ids.
type nameOf map[string]string

// lookUp returns the names that streams refer to. What the token may not see keeps its id.
func lookUp(s *connect.Session) (nameOf, error) {
	names := nameOf{}
	buckets, err := connect.All(s, apiclient.Buckets)
	if err != nil {
		return nil, err
	}
	for _, b := range buckets {
		names[b.Fields.ID] = b.Fields.Name
	}
	remotes, err := connect.All(s, apiclient.Remotes)
	if err != nil {
		return nil, err
	}
	for _, r := range remotes {
		names[r.Fields.ID] = r.Fields.Name
	}
	return names, nil
}

// chosen reports whether a thing is the one that the user names, or any if none is named.
func (n nameOf) chosen(id, ref string) bool { return ref == "" || id == ref || n[id] == ref }

func state(x apiclient.Stream) string {
	if x.Stalled {
		return x.State + " (stalled)"
	}
	return x.State
}

func number(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return count(*n)
}

func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// completeFlags completes the flags that name something.
func completeFlags(f *connect.Flags, cmd *cobra.Command) {
	names := map[string]cobra.CompletionFunc{
		"bucket": connect.Complete(f, apiclient.Buckets, -1), "remote": connect.Complete(f, apiclient.Remotes, -1),
		"onReject":        cobra.FixedCompletions([]string{"deadLetter", "discard", "stop"}, cobra.ShellCompDirectiveNoFileComp),
		"queueFullPolicy": cobra.FixedCompletions([]string{"refuse", "dropOldest", "dropNewest"}, cobra.ShellCompDirectiveNoFileComp),
	}
	for name, complete := range names {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, complete) // it fails for a flag that has one
		}
	}
}
