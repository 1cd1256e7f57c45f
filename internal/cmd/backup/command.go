// Package backup is the command that backs an installation up.
package backup

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/tailrace-cdc/tailrace/internal/backup"
	"github.com/tailrace-cdc/tailrace/internal/cmd/connect"
	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
	"github.com/tailrace-cdc/tailrace/internal/cmd/show"
	"github.com/tailrace-cdc/tailrace/internal/deadletter"
	"github.com/tailrace-cdc/tailrace/internal/installation"
	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/queue"
)

const long = `Back an installation up into one file: organizations, buckets, remotes, streams, tokens, and the dead
letters of streams to other InfluxDBs. If a server uses the data directory, or with --host, it is asked for the
backup, and goes on meanwhile; else the directory is read.

--withQueues takes along what waits in the queues: all that was answered before and is not acknowledged.

Without --withKey the remotes' secrets cannot be read from the file, and are to be given again after a restore.
With it, who has the file has the secrets, and the operator's token: keep it as you keep them.

The embedded target (target.db) is not in it: it is a database, to be backed up as one.

The file is checked before it gets its name. A file that exists is not touched.`

const examples = `  # Of the server that uses ./tailrace-data
  tailrace backup --to monday.backup

  # With all that is needed to go on elsewhere
  tailrace backup --to monday.backup --withQueues --withKey

  # Of a server elsewhere, with the operator's token
  TAILRACE_TOKEN=… tailrace backup --host https://edge-7:8086 --to edge-7.backup`

// command are the flags.
type command struct {
	connect.Flags
	version                     string
	to, queueDir                string
	withQueues, withKey, asJSON bool
}

// Command returns the command.
func Command(version string) *cobra.Command {
	c := &command{version: version}
	cmd := &cobra.Command{
		Use: "backup --to FILE", Short: "Back an installation up into a file", Long: long, Example: examples,
		Args: flags.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.BindServer(cmd.Flags())
	set := cmd.Flags()
	set.StringVar(&c.to, "to", "", "the new file")
	set.BoolVar(&c.withQueues, "withQueues", false, "also what waits in the queues")
	set.BoolVar(&c.withKey, "withKey", false, "also the key for the remotes' secrets, and the operator's token")
	set.StringVar(&c.queueDir, "queueDir", "", "where the queues are if no server runs; default is replicationq in the data directory")
	set.BoolVar(&c.asJSON, "json", false, "write the manifest as JSON")
	return cmd
}

func (c *command) run(cmd *cobra.Command) error {
	if err := connect.FromEnv(cmd.Flags()); err != nil {
		return err
	}
	if c.to == "" {
		return exit.Usage(errors.New("--to: name a new file for the backup"))
	}
	write := c.fromServer
	if c.Host == "" {
		_, err := c.Running()
		switch {
		case errors.As(err, new(*connect.NotRunningError)):
			write = c.fromDirectory
		case err != nil:
			return err
		}
	}
	m, err := backup.Save(c.to, func(w io.Writer) error { return write(cmd.Context(), w) })
	switch {
	case err != nil:
		return err
	case c.asJSON:
		return show.JSON(cmd.OutOrStdout(), m)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: a backup of %d streams%s%s\n", c.to, len(m.Streams),
		map[bool]string{true: ", with their queues", false: ", without queues"}[m.WithQueues],
		map[bool]string{true: ", with the key: it holds secrets", false: ", without the key: give the remotes their secrets after a restore"}[m.WithKey])
	return nil
}

// fromServer asks a server.
func (c *command) fromServer(ctx context.Context, w io.Writer) error {
	s, err := c.Open(ctx)
	if err != nil {
		return err
	}
	return s.Explain(s.Backup(ctx, w, c.withQueues, c.withKey))
}

// fromDirectory reads a data directory that nobody uses.
func (c *command) fromDirectory(ctx context.Context, w io.Writer) (err error) {
	if !installation.Exists(c.DataDir) {
		return exit.Usage(errors.Errorf("there is no installation in %s; name its data directory with --dataDir, or a server with --host", c.DataDir))
	}
	in, err := installation.Open(c.DataDir)
	if err != nil {
		return err
	}
	closing := []func() error{in.Close}
	defer func() {
		for i := len(closing) - 1; i >= 0; i-- {
			if closed := closing[i](); err == nil {
				err = closed
			}
		}
	}()
	if err := backup.Sweep(in.Dir()); err != nil {
		return err
	}
	store, err := metadata.Open(ctx, metadata.Config{Path: in.Path("metadata.db"), Key: make([]byte, metadata.KeySize)}) // no secret is read
	if err != nil {
		return err
	}
	closing = append(closing, store.Close)
	letters, err := deadletter.Open(deadletter.Config{Path: in.Path(deadletter.FileName)})
	if err != nil {
		return err
	}
	closing = append(closing, letters.Close)
	dir := c.queueDir
	if dir == "" {
		dir = in.Path("replicationq")
	}
	source := backup.Source{Version: c.version, Installation: in.ID(), Dir: in.Dir(), Metadata: store, Letters: letters}
	if c.withQueues {
		if _, err := os.Stat(dir); err != nil {
			return errors.Wrap(err, "the queues; where are they? --queueDir")
		}
		queues, err := queue.OpenStore(queue.StoreConfig{Dir: dir})
		if err != nil {
			return err
		}
		closing = append(closing, queues.Close)
		source.Queue = func(id string) (*queue.Snapshot, error) {
			if _, err := os.Stat(filepath.Join(dir, id)); err != nil {
				return nil, errors.WithStack(err)
			}
			q, err := queues.Open(id, queue.Config{})
			if err != nil {
				return nil, err
			}
			return q.Snapshot()
		}
	}
	_, err = backup.Create(ctx, w, source, backup.Options{WithQueues: c.withQueues, WithKey: c.withKey})
	return err
}
