package start

import (
	"context"
	"io"

	"github.com/tailrace-cdc/tailrace/internal/backup"
	"github.com/tailrace-cdc/tailrace/internal/deadletter"
	"github.com/tailrace-cdc/tailrace/internal/installation"
	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/server/api"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
)

// ProvideBackup makes what backs the running installation up.
func ProvideBackup(
	config Config, in *installation.Installation, store *metadata.Store, letters *deadletter.Store, streams *influxlogical.Streams,
) (api.Backup, error) {
	source := backup.Source{
		Version: config.Version, Installation: in.ID(), Dir: in.Dir(), Metadata: store, Letters: letters, Queue: streams.Snapshot,
	}
	return func(ctx context.Context, w io.Writer, withQueues, withKey bool) error {
		_, err := backup.Create(ctx, w, source, backup.Options{WithQueues: withQueues, WithKey: withKey})
		return err
	}, backup.Sweep(in.Dir())
}
