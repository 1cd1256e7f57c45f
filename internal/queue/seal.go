package queue

import (
	"github.com/pkg/errors"
)

// roll ends the segment at hand. In every mode a segment is durable before there
// is a newer one, so a power cut can only ever cost what is in the newest.
func (w *writer) roll() error {
	w.filledAt = w.q.cfg.Now().UnixNano()
	return w.finish()
}

// finish ends the segment at hand, if there is one, so that the next block begins a new one.
func (w *writer) finish() error {
	if err := w.settle(); err != nil {
		return err
	}
	if w.seg == nil {
		return nil
	}
	err := w.closeFile()
	w.q.seal(w.seg, w.prev)
	w.seg = nil
	return err
}

// settle syncs what is written but not durable, which there is only in the modes
// interval and never. If the sync fails, it is carried over into a new file.
func (w *writer) settle() error {
	if w.seg == nil || w.synced == w.off {
		return nil
	}
	if w.doomed {
		return w.carry()
	}
	if w.file == nil {
		if err := w.ready(0, 0); err != nil {
			return err
		}
	}
	err := w.sync()
	if err == nil {
		return nil
	}
	w.q.warn(errors.Wrapf(err, "queue %s: sync failed, writing again to a new segment", w.q.name))
	w.q.counts.rescues.Add(1)
	return w.carry()
}

// park closes the file of an idle segment, which is opened again when needed.
func (w *writer) park() error {
	err := w.settle()
	if closeErr := w.closeFile(); err == nil {
		err = closeErr
	}
	return err
}

// closeFile gives back what was preallocated and closes the file.
func (w *writer) closeFile() error {
	if w.file == nil {
		return nil
	}
	var err error
	if w.alloc {
		err = w.file.Truncate(w.off)
		w.alloc = false
	}
	if closeErr := w.file.Close(); err == nil {
		err = closeErr
	}
	w.file = nil
	return errors.Wrapf(err, "queue %s: close segment", w.q.name)
}

// abandon ends the segment at hand at the last block that may be read. What lies
// behind it is dead: the next segment's header says so. With cut the dead bytes
// are cut off too, if that works; after a failed sync the file is left alone.
func (w *writer) abandon(reason gapReason, cut bool) {
	if w.seg == nil {
		return
	}
	q, seg, file := w.q, w.seg, w.file
	w.seg, w.file, w.alloc = nil, nil, false
	w.reason = reason
	end, readable := q.readable(seg)
	if cut && readable && file != nil {
		_ = file.Truncate(end) // dead anyway
	}
	if file != nil {
		_ = file.Close() // its blocks are durable, or were refused
	}
	if readable {
		q.seal(seg, w.prev)
		return
	}
	if err := q.fs.Remove(q.path(seg.name)); err != nil && !isNotExist(err) {
		q.orphan(seg, w.prev)
	}
}

// giveUp ends the segment after a failed write. What may be read already is made
// durable first; if that fails too, the segment stays until it can be carried over.
func (w *writer) giveUp() {
	if w.file != nil && w.synced != w.off && w.synced != 0 {
		_ = w.file.Truncate(w.off) // what is behind is dead anyway
		if err := w.settle(); err != nil {
			w.q.warn(err)
			return
		}
	}
	w.abandon(gapFailed, true)
}

// rescue writes the batch at hand again, to a new segment, and syncs that. Blocks
// that could be read already but were not durable go with it.
func (w *writer) rescue() error {
	if err := w.carry(); err != nil {
		return err
	}
	if w.seg == nil {
		if err := w.create(w.batch[0].first, max(w.capacity, dataStart+w.batchSize())); err != nil {
			return err
		}
	}
	w.reason = gapCarried
	if err := w.write(); err != nil {
		return err
	}
	return w.sync()
}

func (w *writer) batchSize() int64 {
	var n int64
	for _, r := range w.batch {
		n += r.g.Size()
	}
	return n
}

// carry gives up the segment at hand after a failed sync. Blocks in it that may
// be read already but are not durable (only in the modes interval and never) are
// read back and written to a new segment. Most often the page cache still has
// them; what it has not is declared lost.
func (w *writer) carry() error {
	if w.seg == nil {
		return nil
	}
	old, from := w.seg, w.synced
	to, readable := w.q.readable(old)
	if !readable || to <= from {
		w.abandon(gapCarried, false)
		return nil
	}
	return w.carryBlocks(old, from, to)
}
