package metadata

import (
	"context"

	"github.com/pkg/errors"
)

// A Seed is what a new installation begins with: one of each, that belong together.
type Seed struct {
	Org    Org
	Bucket Bucket
	Remote Remote
	Stream Stream
}

// seeded is the fact that Seed has been called: what users delete of it stays deleted. Its value is the
// ID of the remote.
const seeded = "seeded remote"

// Seed stores what a new installation begins with, all of it or nothing, unless that has been done
// before. It returns the ID of the remote that it made, then or now.
func (s *Store) Seed(ctx context.Context, seed Seed) (remote ID, err error) {
	err = s.do(ctx, func(t tx) error {
		known, err := t.list("SELECT value FROM facts WHERE name = ?", seeded)
		if err != nil {
			return err
		}
		if len(known) > 0 {
			remote, err = ParseID(known[0])
			return errors.Wrapf(err, "metadata: %q", known[0])
		}
		org, err := t.createOrg(seed.Org)
		if err != nil {
			return err
		}
		seed.Bucket.OrgID, seed.Remote.OrgID, seed.Stream.OrgID = org.ID, org.ID, org.ID
		bucket, err := t.createBucket(seed.Bucket)
		if err != nil {
			return err
		}
		r, err := t.createRemote(seed.Remote)
		if err != nil {
			return err
		}
		seed.Stream.BucketID, seed.Stream.RemoteID = bucket.ID, r.ID
		if _, err := t.createStream(seed.Stream); err != nil {
			return err
		}
		remote = r.ID
		_, err = t.exec("fact", seeded, "INSERT INTO facts (name, value) VALUES (?, ?)", seeded, remote.String())
		return err
	})
	return remote, err
}
