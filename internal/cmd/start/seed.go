package start

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/remote"
)

// Default is the name of what a new installation has: an organisation, a bucket, a remote and a stream.
const Default = "default"

// seed makes what a new installation begins with, and gives its remote the address of --targetConn where
// that is given.
func seed(ctx context.Context, config Config, store *metadata.Store, log *slog.Logger) (metadata.Seeded, error) {
	target, err := config.targetConn()
	if err != nil {
		return metadata.Seeded{}, err
	}
	bucket := target.bucket
	if target.address.Kind != remote.Influx {
		bucket = config.TargetSchema
	}
	made, err := store.Seed(ctx, metadata.Seed{
		Org: metadata.Org{Name: Default}, Bucket: metadata.Bucket{Name: Default},
		Remote: metadata.Remote{
			Name: Default, URL: target.address.Text, Secret: target.secret, RemoteOrgID: orNil(target.org), Unrestricted: true,
		},
		Stream: metadata.Stream{Name: Default, RemoteBucketName: orNil(bucket)},
	})
	if err != nil {
		return made, err
	}
	moved := false // to a target of another kind, where the old bucket would be a schema, or the other way round
	if config.TargetConn != "" {
		_, err := store.UpdateRemote(ctx, made.Remote, func(r *metadata.Remote) error {
			old, _, err := remote.Parse(r.URL)
			moved = err != nil || (old.Kind == remote.Influx) != (target.address.Kind == remote.Influx)
			r.Unrestricted = true
			// A secret that is not given is the one that is stored, for the same address.
			if remote.Shown(r.URL) != target.address.Text || target.secret != "" {
				r.URL, r.Secret = target.address.Text, target.secret
			}
			r.RemoteOrgID = orNil(target.org)
			return nil
		})
		if err := unlessDeleted(err, log, "--targetConn", "remote"); err != nil {
			return made, err
		}
	}
	if bucket != "" || moved {
		_, err := store.UpdateStream(ctx, made.Stream, func(s *metadata.Stream) error {
			s.RemoteBucketID, s.RemoteBucketName = nil, orNil(bucket)
			return nil
		})
		if err := unlessDeleted(err, log, "--targetConn, --targetSchema", "stream"); err != nil {
			return made, err
		}
	}
	return made, nil
}

// unlessDeleted passes an error on that does not say that the user has deleted the thing.
func unlessDeleted(err error, log *slog.Logger, flag, what string) error {
	if gone := new(metadata.NotFoundError); errors.As(err, &gone) {
		log.Warn("the "+what+" that the installation began with has been deleted; the flag does nothing", "flag", flag)
		return nil
	}
	return err
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// shown returns an address as people know it.
func shown(text, dir string) string {
	if a, _, err := remote.Parse(text); err == nil && a.Kind == remote.SQLite && !filepath.IsAbs(a.Path) {
		return "sqlite:" + filepath.Join(dir, a.Path)
	}
	return remote.Shown(text)
}
