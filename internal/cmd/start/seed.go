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
	address, secret, err := config.targetConn()
	if err != nil {
		return metadata.Seeded{}, err
	}
	made, err := store.Seed(ctx, metadata.Seed{
		Org: metadata.Org{Name: Default}, Bucket: metadata.Bucket{Name: Default},
		Remote: metadata.Remote{Name: Default, URL: address.Text, Secret: secret, Unrestricted: true},
		Stream: metadata.Stream{Name: Default, RemoteBucketName: orNil(config.TargetSchema)},
	})
	if err != nil {
		return made, err
	}
	if config.TargetConn != "" {
		_, err := store.UpdateRemote(ctx, made.Remote, func(r *metadata.Remote) error {
			r.Unrestricted = true
			// A password that is not given is the one that is stored, for the same address.
			if r.URL != address.Text || secret != "" {
				r.URL, r.Secret = address.Text, secret
			}
			return nil
		})
		if err := unlessDeleted(err, log, "--targetConn", "remote"); err != nil {
			return made, err
		}
	}
	if config.TargetSchema != "" {
		_, err := store.UpdateStream(ctx, made.Stream, func(s *metadata.Stream) error {
			s.RemoteBucketName = &config.TargetSchema
			return nil
		})
		if err := unlessDeleted(err, log, "--targetSchema", "stream"); err != nil {
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
	return text
}
