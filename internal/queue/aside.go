package queue

import (
	"fmt"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// setAside keeps a copy of damaged bytes for a person to look at. That it cannot
// is a warning and no more: the bytes that are good have to be sent.
func (q *Queue) setAside(seg *segment, from, to int64) {
	there := to
	if size, err := sizeOf(q.fs, q.path(seg.name)); err == nil {
		there = min(max(size, from), to)
	}
	reason := "no valid block"
	if there < to {
		reason = fmt.Sprintf("no valid block, and %d bytes behind that are missing: the file ends there", to-there)
	}
	q.warn(errors.WithStack(&CorruptionError{Dir: q.dir, Segment: seg.name, Offset: from, Length: there - from, Reason: reason}))
	if there == from {
		return
	}
	limit := max(q.Limits().MaxBytes/4, maxSegment/2)
	err := copyAside(q.fs, q.dir, seg.name, from, there, limit)
	if err != nil {
		q.warn(errors.Wrapf(err, "queue %s: keep damaged bytes aside", q.name))
	}
}

// copyAside copies a part of a segment into the folder aside. All that is kept
// there may take limit bytes; what is more is cut.
func copyAside(fsys disk.FS, dir, name string, from, to, limit int64) error {
	aside := filepath.Join(dir, asideName)
	if err := disk.MkdirAll(fsys, aside); err != nil {
		return err
	}
	entries, err := fsys.List(aside)
	if err != nil {
		return err
	}
	target := fmt.Sprintf("%s.%d.bad", name, from)
	for _, e := range entries {
		limit -= e.Size
		if e.Name == target {
			return nil // from an earlier time that the same damage was met
		}
	}
	to = min(to, from+limit)
	if to <= from {
		return errors.New("the folder aside is full")
	}
	src, err := fsys.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }() // nothing was written
	dst, err := fsys.Create(filepath.Join(aside, target))
	if err != nil {
		return err
	}
	err = copyRange(dst, holed{src, patiently}, from, to)
	if err == nil {
		err = dst.Sync()
	}
	if closeErr := dst.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = fsys.SyncDir(aside)
	}
	return err
}

func copyRange(dst disk.File, src holed, from, to int64) error {
	buf := make([]byte, min(to-from, 64<<10))
	for at := from; at < to; {
		n, err := src.ReadAt(buf[:min(int64(len(buf)), to-at)], at)
		if n == 0 {
			if isEOF(err) {
				return nil
			}
			return err
		}
		if _, err := dst.WriteAt(buf[:n], at-from); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}
