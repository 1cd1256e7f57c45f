package backup

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/deadletter"
	"github.com/tailrace-cdc/tailrace/internal/installation"
	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// RestoreConfig says what to restore, and where to.
type RestoreConfig struct {
	// From is the backup, and Dir the data directory, which must be empty or not exist.
	From, Dir string
	// QueueDir is where the queues go, which must hold none. Default: replicationq in Dir.
	QueueDir string
	// SameInstallation keeps the installation's id. The installation that was backed up must then never run
	// again: targets take the two for one.
	SameInstallation bool
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Report is what was restored.
type Report struct {
	Manifest
	// RestoredAs is the installation's id now.
	RestoredAs string `json:"restoredAs"`
}

// Restore makes a data directory of a backup, which it checks as a whole before it writes anything. Until all
// is there, durably, the directory is refused by whoever would use it.
func Restore(ctx context.Context, c RestoreConfig) (r Report, err error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if r.Manifest, err = Verify(c.From); err != nil {
		return r, err
	}
	id, err := uuid.Parse(r.Installation)
	if err != nil {
		return r, &DamagedError{Path: c.From, Reason: "its installation is " + r.Installation}
	}
	if !c.SameInstallation {
		id = uuid.New()
	}
	r.RestoredAs = id.String()
	if c.QueueDir != "" {
		if entries, err := os.ReadDir(c.QueueDir); err == nil && len(entries) > 0 {
			return r, errors.Errorf("%s is not empty; name a directory for the queues that holds none", c.QueueDir)
		}
	}
	into, err := installation.Restore(c.Dir)
	if err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			_ = into.Abandon() // the first error says more
		}
	}()
	queues := c.QueueDir
	if queues == "" {
		queues = into.Path("replicationq")
	}
	if err := disk.MkdirAll(disk.OS(), queues); err != nil {
		return r, errors.Wrap(err, "restore")
	}
	extract := extraction{dir: into.Path(), queues: queues}
	again, err := read(c.From, extract.write)
	if err == nil {
		err = compare(again.Members, r.Members)
	}
	if err != nil {
		return r, err
	}
	if err := r.settle(ctx, into.Path(), queues, c.Now()); err != nil {
		return r, err
	}
	return r, into.Finish(id)
}

// extraction writes members to where they belong.
type extraction struct{ dir, queues string }

func (x extraction) write(name string, content io.Reader) error {
	path := filepath.Join(x.dir, name)
	if rest, ok := strings.CutPrefix(name, queuesDir+"/"); ok {
		path = filepath.Join(x.queues, filepath.FromSlash(rest))
		if err := disk.MkdirAll(disk.OS(), filepath.Dir(path)); err != nil {
			return &writeError{errors.Wrap(err, "restore")}
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return &writeError{errors.Wrap(err, "restore")}
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = installation.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return &writeError{errors.Wrap(err, "restore")}
	}
	return nil
}

// sequencesPerSecond is more than a queue can give to blocks in a second, for as long as it lives.
const sequencesPerSecond = 1 << 20

// settle makes what was restored fit its new life, and sees that it can be opened.
func (r *Report) settle(ctx context.Context, dir, queues string, now time.Time) error {
	store, err := metadata.Open(ctx, metadata.Config{Path: filepath.Join(dir, metadataName), Key: make([]byte, metadata.KeySize)})
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	if r.Has(lettersName) && r.RestoredAs != r.Installation {
		letters, err := deadletter.Open(deadletter.Config{Path: filepath.Join(dir, lettersName)})
		if err != nil {
			return err
		}
		err = letters.Adopt(ctx, r.Installation, r.RestoredAs)
		if closed := letters.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
	}
	// The queue that was backed up went on, under the same id. Numbers that it, or a queue that was restored
	// from the same backup before, may have used must not stand for something else in a target's memo.
	beyond := queue.Sequence(now.Unix()) * sequencesPerSecond
	for _, s := range r.Streams {
		if !s.Queue {
			continue
		}
		q, err := queue.Open(queue.Config{Dir: filepath.Join(queues, s.ID), Name: s.Name})
		if err != nil {
			return err
		}
		err = q.SkipTo(beyond)
		if closed := q.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
	}
	return nil
}
