package backup

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/queue"
)

// A Source is an installation that is to be backed up. It may be running.
type Source struct {
	// Version is the program's, and Installation the installation's id.
	Version, Installation string
	// Dir is the data directory. A temporary directory is made in it, whose name begins with Scratch.
	Dir string
	// Metadata and Letters write copies of themselves to new files.
	Metadata, Letters Snapshotter
	// Queue returns a snapshot of a stream's queue. If there is none (any more), the error is
	// os.ErrNotExist.
	Queue func(id string) (*queue.Snapshot, error)
}

// A Snapshotter writes a consistent copy of itself to a file that does not exist yet.
type Snapshotter interface {
	Snapshot(ctx context.Context, to string) error
}

// Options say what is backed up beside metadata and dead letters.
type Options struct {
	// WithQueues takes what waits in the queues along.
	WithQueues bool
	// WithKey takes the key for the remotes' secrets and the operator's token along: who has the backup
	// can then read the secrets.
	WithKey bool
}

// Scratch is how the names of temporary directories begin. One that is left in a data directory when nobody
// uses it was left by a crash.
const Scratch = "tmp-backup-"

// Create writes a backup. Before it writes the first byte, it has looked at what fails most often. After an
// error what was written is no backup, and is taken for none.
func Create(ctx context.Context, w io.Writer, src Source, o Options) (m Manifest, err error) {
	dir, err := os.MkdirTemp(src.Dir, Scratch)
	if err != nil {
		return m, errors.Wrap(err, "backup")
	}
	defer func() { _ = os.RemoveAll(dir) }() // the next start removes what is left
	stored := filepath.Join(dir, metadataName)
	if err := src.Metadata.Snapshot(ctx, stored); err != nil {
		return m, err
	}
	streams, err := streamsOf(ctx, stored)
	if err != nil {
		return m, err
	}
	header := Header{Format: Format, Version: src.Version}
	m = Manifest{
		Header: header, CreatedAt: time.Now().UTC(), Installation: src.Installation, Schemas: schemas(),
		WithKey: o.WithKey, WithQueues: o.WithQueues, Streams: []Stream{},
	}
	secrets, err := readSecrets(src.Dir, o)
	if err != nil {
		return m, err
	}
	out, err := newArchive(w)
	if err != nil {
		return m, err
	}
	defer func() { out.abandon() }()
	if err := out.document(headerName, header); err != nil {
		return m, err
	}
	if err := out.file(metadataName, stored); err != nil {
		return m, err
	}
	for _, s := range streams {
		entry := Stream{ID: s.ID.String(), Name: s.Name}
		if o.WithQueues {
			if entry.Queue, err = addQueue(ctx, out, src, entry.ID); err != nil {
				return m, errors.WithMessagef(err, "the queue of stream %s (%s)", entry.Name, entry.ID)
			}
		}
		m.Streams = append(m.Streams, entry)
	}
	if _, err := os.Stat(filepath.Join(src.Dir, lettersName)); err == nil {
		letters := filepath.Join(dir, lettersName)
		if err := src.Letters.Snapshot(ctx, letters); err != nil {
			return m, err
		}
		if err := out.file(lettersName, letters); err != nil {
			return m, err
		}
	}
	for _, s := range secrets {
		if err := out.content(s.name, s.content); err != nil {
			return m, err
		}
	}
	m.Members = out.members
	if err := out.document(manifestName, m); err != nil {
		return m, err
	}
	return m, out.close()
}

// addQueue adds the files of a queue, and reports whether there was one.
func addQueue(ctx context.Context, out *archive, src Source, id string) (found bool, err error) {
	s, err := src.Queue(id)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // deleted since the metadata was copied
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = s.Close() }() // it was only read
	for _, p := range s.Parts() {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if err := out.add(queueMember(id, p.Name), p.Size, p.Content); err != nil {
			return false, err
		}
	}
	return true, nil
}

// streamsOf returns the streams of a copy of the metadata.
func streamsOf(ctx context.Context, path string) ([]metadata.Stream, error) {
	store, err := metadata.Open(ctx, metadata.Config{Path: path, Key: make([]byte, metadata.KeySize)}) // no secret is read
	if err != nil {
		return nil, err
	}
	streams, err := store.Streams(ctx, metadata.StreamFilter{})
	if closed := store.Close(); err == nil {
		err = closed
	}
	return streams, err
}

type secret struct {
	name    string
	content []byte
}

// readSecrets returns the files that are taken along with the key.
func readSecrets(dir string, o Options) (all []secret, err error) {
	if !o.WithKey {
		return nil, nil
	}
	for _, name := range []string{keyName, tokenName} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, errors.Wrap(err, "backup: what belongs to the key")
		}
		all = append(all, secret{name, content})
	}
	return all, nil
}

// Sweep removes what backups that were killed have left in a data directory, which nobody else uses.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return errors.WithStack(err)
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), Scratch) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return errors.WithStack(err)
			}
		}
	}
	return nil
}
