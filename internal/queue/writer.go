package queue

import (
	"path/filepath"
	"sync"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// A file is given up after so many syncs failed in a row, each on a new file.
const maxRescues = 3

// directFrom is the payload size from which a payload is written from where it
// is. Copying smaller ones costs less than another call.
const directFrom = 64 << 10

// writer appends to the newest segment. All of it is guarded by mu.
type writer struct {
	q  *Queue
	mu sync.Mutex

	seg      *segment
	file     disk.File // nil while the segment is parked
	off      int64     // end of what was written
	synced   int64     // end of what is durable
	capacity int64     // where the segment is full
	alloc    bool      // space was preallocated beyond off
	named    bool      // the file's name is durable
	doomed   bool      // a sync of the file failed: it must not be synced again

	prev     Sequence // newest block that may be read
	prevTime int64    // the newest time up to it, which no later block is older than
	written  Sequence // newest block in the file
	durable  Sequence // newest block that is durable
	reason   gapReason
	now      int64 // time of the batch at hand
	newest   int64 // the newest time up to it
	filledAt int64 // when the last segment became full

	batch   []*request
	staging []byte
	stageAt int64
	places  []place // of the blocks of the batch
}

// commit writes and syncs one batch.
func (w *writer) commit() {
	q := w.q
	need, size, mode := q.outlook()
	if need == 0 {
		return // all were withdrawn
	}
	var err error
	if w.doomed {
		err = w.carry()
	}
	if err == nil && w.seg != nil && w.off > dataStart && w.off+need > max(w.capacity, size) {
		err = w.roll()
	}
	if err == nil {
		err = w.ready(q.peekNext(), max(size, dataStart+need))
	}
	w.batch = q.take(w.batch[:0], w.capacity-w.off)
	if err != nil {
		q.putBack(w.batch) // nothing was written, so the numbers are free
	} else if err = w.writeBatch(mode); err == nil {
		w.publish()
	}
	q.finish(w.batch, err)
	clear(w.batch)
	w.batch = w.batch[:0]
}

// writeBatch returns nil if the batch is as durable as the mode promises.
func (w *writer) writeBatch(mode SyncMode) error {
	if err := w.write(); err != nil {
		w.giveUp()
		return errors.Wrapf(err, "queue %s: append", w.q.name)
	}
	if mode != SyncAlways && w.named {
		return nil
	}
	err := w.sync()
	for range maxRescues {
		if err == nil {
			return nil
		}
		// The kernel may have dropped the pages and would call the next sync of this
		// file a success. So the same blocks go into a new file.
		w.q.warn(errors.Wrapf(err, "queue %s: sync failed, writing again to a new segment", w.q.name))
		w.q.counts.rescues.Add(1)
		err = w.rescue()
	}
	if err != nil && !w.doomed {
		w.abandon(gapFailed, false)
	}
	return errors.Wrapf(err, "queue %s: sync", w.q.name)
}

// ready makes a segment that can be appended to: the one at hand, or a new one
// that begins with sequence first.
func (w *writer) ready(first Sequence, capacity int64) error {
	if w.file != nil {
		return nil
	}
	w.q.keeper.wake()
	if w.seg != nil {
		f, err := w.q.fs.OpenWrite(w.q.path(w.seg.name))
		if err != nil {
			return errors.Wrapf(err, "queue %s: reopen segment", w.q.name)
		}
		w.file = f
		return nil
	}
	return w.create(first, capacity)
}

// create begins a new segment. Its header goes to disk with the first batch.
func (w *writer) create(first Sequence, capacity int64) error {
	q := w.q
	if err := q.noteUnused(w.prev, first); err != nil {
		return err
	}
	seg := newSegment(q.id, first, q.freeGen(first))
	seg.since, seg.sinceKnown = w.prevTime, true
	f, err := q.fs.Create(q.path(seg.name))
	if err != nil {
		return errors.Wrapf(err, "queue %s: new segment", q.name)
	}
	w.seg, w.file = seg, f
	w.off, w.synced, w.named, w.alloc = dataStart, 0, false, false
	w.capacity = capacity
	if w.busy() {
		// A full disk shows here, before anything of a group is written.
		if err := f.Preallocate(capacity); err != nil {
			w.abandon(w.reason, true)
			return errors.Wrapf(err, "queue %s: new segment", q.name)
		}
		w.alloc = true
	}
	return nil
}

// busy reports whether the segment before became full within a minute: only then
// it pays to allocate a whole one ahead.
func (w *writer) busy() bool {
	const minute = 60e9
	since := w.q.cfg.Now().UnixNano() - w.filledAt
	return w.filledAt != 0 && 0 <= since && since < minute
}

// header puts the segment's header, twice, in front of the first batch.
func (w *writer) header() []byte {
	h := segmentHead{
		ID: w.q.id, First: w.seg.first, Gen: w.seg.gen, Prev: w.prev, PrevTime: w.prevTime,
		Reason: w.reason, Created: w.q.cfg.Now().UnixNano(), Capacity: w.capacity,
	}
	w.staging = append(w.staging[:0], make([]byte, dataStart)...)
	h.encode(w.staging)
	copy(w.staging[headCopyAt:], w.staging[:fileHeadSize])
	return w.staging
}

// write writes the batch behind what is there.
func (w *writer) write() error {
	w.staging, w.stageAt = w.staging[:0], w.off
	if w.synced == 0 {
		w.staging, w.stageAt = w.header(), 0
	}
	w.places = w.places[:0]
	at := w.off
	for _, r := range w.batch {
		for i := range r.g.blocks {
			if err := w.stage(r, i, at); err != nil {
				return err
			}
			at += blockSize(r.g.blocks[i].stored)
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.off, w.written = at, w.batch[len(w.batch)-1].last
	return nil
}

// stage adds one block to the staging buffer, or writes it at once if it is large.
func (w *writer) stage(r *request, i int, at int64) error {
	p := &r.g.blocks[i]
	h := blockHead{
		Sequence: r.first + Sequence(i), Time: w.now, Stored: uint32(p.stored), Raw: uint32(p.raw),
		Points: p.points, Kind: p.kind, Codec: p.codec, PayloadSum: p.crc, Index: uint32(i), Synced: uint32(w.synced),
		After: uint32(len(r.g.blocks) - 1 - i),
	}
	if h.After == 0 {
		h.Flags |= flagLast
	}
	if i == 0 {
		w.places = append(w.places, place{seg: w.seg, off: at, seq: h.Sequence, time: h.Time})
	}
	n := len(w.staging)
	w.staging = grow(w.staging, blockHeadSize)[:n+blockHeadSize]
	h.encode(w.staging[n:], w.seg.seed, at)
	payload := r.g.buf[p.off : p.off+p.stored]
	if p.stored >= directFrom {
		if err := w.flush(); err != nil {
			return err
		}
		if err := w.put(payload); err != nil {
			return err
		}
	} else {
		w.staging = append(w.staging, payload...)
	}
	const zeros = "\x00\x00\x00\x00\x00\x00\x00"
	w.staging = append(w.staging, zeros[:-p.stored&(blockAlign-1)]...)
	if len(w.staging) >= 4*directFrom {
		return w.flush()
	}
	return nil
}

func (w *writer) flush() error {
	if len(w.staging) == 0 {
		return nil
	}
	err := w.put(w.staging)
	w.staging = w.staging[:0]
	return err
}

func (w *writer) put(b []byte) error {
	n, err := w.file.WriteAt(b, w.stageAt)
	w.stageAt += int64(n)
	return err
}

// sync makes everything up to off durable, and with the first batch of a segment
// its name too.
func (w *writer) sync() error {
	begin := w.q.cfg.Now()
	if err := w.file.Sync(); err != nil {
		return err
	}
	if !w.named {
		if err := w.q.fs.SyncDir(w.q.dir); err != nil {
			return err
		}
		w.named = true
	}
	w.synced = w.off
	w.durable = w.written
	w.q.setMark(place{seg: w.seg, off: w.synced, seq: w.durable})
	w.q.counts.sawSync(w.q.cfg.Now().Sub(begin))
	return nil
}

// publish makes the batch readable.
func (w *writer) publish() {
	last := w.written
	w.prev, w.prevTime, w.reason = last, w.newest, gapNone
	w.q.publish(w.seg, w.off, last, w.places)
}

func (q *Queue) path(name string) string { return filepath.Join(q.dir, name) }
