package fan

import (
	"context"
	"unsafe"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/util/stamp"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Mutations are handed out in chunks: the lock is taken, and the budget asked, once for each.
const (
	chunkRows  = 64
	chunkBytes = logical.MinBytesInFlight / 4
)

// feed is what the goroutine of the source needs for one chunk.
type feed struct {
	key    []byte
	hashes [chunkRows]uint64
	shards [chunkRows]uint32
	bytes  [chunkRows]int64
}

// Data adds mutations to the open transaction. It waits for the budget, and at barriers. The slice
// may be reused when it returns; what the mutations point to belongs to the fan.
func (f *Fan) Data(ctx context.Context, muts []logical.Mutation) error {
	muts = f.skipped(muts)
	for len(muts) > 0 {
		barrier := f.barrierIs(ctx, &muts[0])
		if barrier {
			if err := f.Drain(ctx); err != nil {
				return err
			}
		}
		n, bytes, err := f.chunk(ctx, muts, barrier)
		if err != nil {
			return err
		}
		if !f.cfg.Budget.TryAcquire(bytes) {
			n, bytes = 1, f.feed.bytes[0] // no more than one at a time is sure to fit
			if err := f.acquire(ctx, bytes); err != nil {
				return err
			}
		}
		if err := f.push(muts[:n], bytes, barrier); err != nil {
			f.cfg.Budget.Release(bytes)
			return err
		}
		if barrier {
			if err := f.Drain(ctx); err != nil {
				return err
			}
		}
		muts = muts[n:]
	}
	return nil
}

// skipped leaves out what is in the target already.
func (f *Fan) skipped(muts []logical.Mutation) []logical.Mutation {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(f.skipping, len(muts))
	f.skipping -= n
	f.passed += n
	return muts[n:]
}

// barrierIs reports whether a mutation is a barrier.
func (f *Fan) barrierIs(ctx context.Context, m *logical.Mutation) bool {
	return m.Op.Barrier() || f.cfg.Reaches != nil && f.cfg.Reaches(ctx, m)
}

// chunk measures how much of muts is handed out next: a barrier, or what comes before the next one.
func (f *Fan) chunk(ctx context.Context, muts []logical.Mutation, barrier bool) (n int, bytes int64, err error) {
	f.mu.Lock()
	err = f.usable()
	open, fresh := f.progress.Open(), f.fresh
	f.mu.Unlock()
	switch {
	case err != nil:
		return 0, 0, err
	case !open:
		return 0, 0, errors.New("fan: data without a transaction")
	}
	for n < min(len(muts), chunkRows) {
		m := &muts[n]
		size := cost(m)
		if fresh && n == 0 {
			size += int64(stamp.EntrySize)
		}
		if n > 0 && (bytes+size > chunkBytes || f.barrierIs(ctx, m)) {
			break
		}
		f.feed.bytes[n] = size
		f.feed.place(n, m, len(f.shards), barrier)
		bytes += size
		n++
		if barrier {
			break
		}
	}
	return n, bytes, nil
}

// place chooses the shard of the n-th mutation of the chunk.
func (d *feed) place(n int, m *logical.Mutation, shards int, barrier bool) {
	var h uint64
	if !barrier {
		h, d.key = route(m, d.key)
	}
	d.shards[n] = uint32(h % uint64(shards))
	if m.Route != 0 || barrier || m.Values == nil {
		h = 0 // it is not that of a key
	}
	d.hashes[n] = h
}

// route returns a hash that mutations which must keep their order have in common. It uses the memory
// of key, and returns it.
func route(m *logical.Mutation, key []byte) (uint64, []byte) {
	switch {
	case m.Op.Barrier():
		return 0, key
	case m.Route != 0: // sources may simply count them
		return fold(m.Route^hashA, hashB), key
	}
	key = m.AppendKey(key[:0])
	return hash(key), key
}

// cost is what a mutation takes of the budget: its own size, and what is kept for it at most. That
// is its place in the queue and in its batch, and the values of a patch once more, because merging
// makes copies of them.
func cost(m *logical.Mutation) int64 {
	n := m.Size() + 2*int(unsafe.Sizeof(item{}))
	if m.Op == logical.OpPatch {
		n += len(m.Values) * int(unsafe.Sizeof(logical.Value{}))
	}
	return int64(n)
}

// acquire takes bytes of the budget. No lock is held meanwhile, because those who release them need
// it; and the wait ends if the fan fails, because then nobody releases them.
func (f *Fan) acquire(ctx context.Context, n int64) error {
	f.mu.Lock()
	if err := f.usable(); err != nil {
		f.mu.Unlock()
		return err
	}
	f.feeding = true
	f.resolveIfDue()
	fan := f.ctx
	f.mu.Unlock()

	wait, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(fan, func() { cancel(context.Cause(fan)) })
	err := f.cfg.Budget.Acquire(wait, n)
	stop()
	cancel(nil)

	f.mu.Lock()
	f.feeding = false
	f.mu.Unlock()
	return err
}

// push queues a chunk, and starts the shards that have not been at work.
func (f *Fan) push(muts []logical.Mutation, bytes int64, barrier bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	f.progress.Add(len(muts))
	f.fresh = false
	from := f.passed
	f.passed += len(muts)
	if barrier { // then it is alone
		f.barrier, f.unsure = f.passed, true
	}
	f.left += len(muts)
	f.held += bytes
	for i := range muts {
		s := &f.shards[f.feed.shards[i]]
		f.seq++
		s.push(item{mut: muts[i], tx: f.tx, seq: f.seq, at: from + i, hash: f.feed.hashes[i], bytes: f.feed.bytes[i], alone: barrier}, &f.blocks)
		if !s.running && !f.drained {
			f.run(s)
		}
	}
	return nil
}

// run starts a shard's worker. Callers hold mu.
func (f *Fan) run(s *shard) {
	s.running = true
	f.workers++
	go f.work(f.ctx, f.waits, s)
}
