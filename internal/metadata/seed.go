package metadata

import (
	"context"
	"encoding/json"

	"github.com/pkg/errors"
)

// A Seed is what a new installation begins with: one of each, that belong together.
type Seed struct {
	Org    Org
	Bucket Bucket
	Remote Remote
	Stream Stream
}

// Seeded are the IDs of what Seed has made, whether or not it is still there.
type Seeded struct{ Remote, Stream ID }

// seeded is the fact that Seed has been called: what users delete of it stays deleted.
const seeded = "seeded"

// Seed stores what a new installation begins with, all of it or nothing, unless that has been done
// before. It returns what it made, then or now.
func (s *Store) Seed(ctx context.Context, seed Seed) (made Seeded, err error) {
	err = s.do(ctx, func(t tx) error {
		known, err := t.list("SELECT value FROM facts WHERE name = ?", seeded)
		if err != nil {
			return err
		}
		if len(known) > 0 {
			return errors.Wrap(json.Unmarshal([]byte(known[0]), &made), "metadata: what the installation began with")
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
		stream, err := t.createStream(seed.Stream)
		if err != nil {
			return err
		}
		made = Seeded{Remote: r.ID, Stream: stream.ID}
		text, err := json.Marshal(made)
		if err != nil {
			return errors.Wrap(err, "metadata")
		}
		_, err = t.exec("fact", seeded, "INSERT INTO facts (name, value) VALUES (?, ?)", seeded, string(text))
		return err
	})
	return made, err
}
