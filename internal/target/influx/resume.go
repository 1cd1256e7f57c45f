package influx

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/tailrace-cdc/tailrace/logical"
)

// resume remembers what failed attempts had sent, so that the next one goes on there. Without it, a batch
// that takes longer than the loop's timeout would begin anew for ever.
//
// It skips lines only if they are the ones that were stored, and if nothing of their series has been sent
// since: the remote is then just as it would be had they been sent again.
type resume struct {
	mu   sync.Mutex
	list []stored
}

// stored is the beginning of an attempt that failed behind it.
type stored struct {
	lines  int
	sum    [sha256.Size]byte
	routes map[uint64]struct{}
}

// maxStored bounds how many failed attempts are remembered: one per shard.
const maxStored = 64

// note remembers that these lines were stored.
func (r *resume) note(muts []logical.Mutation) {
	if len(muts) == 0 {
		return
	}
	s := stored{lines: len(muts), sum: sumOf(muts), routes: map[uint64]struct{}{}}
	for i := range muts {
		s.routes[muts[i].Route] = struct{}{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) >= maxStored {
		r.list = slices.Delete(r.list, 0, 1)
	}
	r.list = append(r.list, s)
}

// skip returns how many of the lines are stored already, and forgets all that these lines are going to
// make untrue.
func (r *resume) skip(muts []logical.Mutation) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(s stored) bool {
		if n == 0 && s.lines <= len(muts) && s.sum == sumOf(muts[:s.lines]) {
			n = s.lines
			return true
		}
		return slices.ContainsFunc(muts, func(m logical.Mutation) bool {
			_, same := s.routes[m.Route]
			return same
		})
	})
	return n
}

func sumOf(muts []logical.Mutation) (sum [sha256.Size]byte) {
	h := sha256.New()
	var size [8]byte
	for i := range muts {
		binary.LittleEndian.PutUint64(size[:], uint64(len(muts[i].Raw)))
		h.Write(size[:])
		h.Write(muts[i].Raw)
	}
	h.Sum(sum[:0])
	return sum
}
