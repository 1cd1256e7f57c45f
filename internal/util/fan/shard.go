package fan

import (
	"sync"

	"github.com/tailrace-cdc/tailrace/internal/util/retry"
	"github.com/tailrace-cdc/tailrace/internal/util/stamp"
	"github.com/tailrace-cdc/tailrace/logical"
)

// An item is one mutation on its way.
type item struct {
	mut   logical.Mutation
	tx    stamp.ID
	seq   uint64 // its place in source order
	at    int    // its place in its transaction
	hash  uint64 // of its key, or 0 if that is not known
	bytes int64  // what it holds of the budget
	alone bool   // it is a barrier
}

// A shard is a queue of mutations that are applied one after the other. It is guarded by the fan's
// mu, except for what its worker owns.
type shard struct {
	number     int
	head, tail *block // nil if the queue is empty
	queued     int
	running    bool
	retry      *retry.Retry
}

// blockItems is how many items a block holds: as few as make the cost of a block small, because a
// shard that has one item in its queue takes the memory of a block.
const blockItems = 32

// A block is a part of a queue. Blocks that are empty go back to the pool that they came from.
type block struct {
	items    [blockItems]item
	from, to int // items[from:to] are queued
	next     *block
}

func newBlock() any { return new(block) }

func (s *shard) push(it item, pool *sync.Pool) {
	switch b := s.tail; {
	case b == nil:
		s.tail = pool.Get().(*block)
		s.head = s.tail
	case b.to == blockItems:
		s.tail = pool.Get().(*block)
		b.next = s.tail
	}
	s.tail.items[s.tail.to] = it
	s.tail.to++
	s.queued++
}

// take moves the items of the next batch to dst: at most so many rows and bytes, and at least one if
// there is one.
func (s *shard) take(dst []item, rows int, bytes int64, pool *sync.Pool) []item {
	left := bytes
	for taken := 0; s.head != nil && taken < rows; {
		b := s.head
		n := 0
		for _, it := range b.items[b.from:min(b.to, b.from+rows-taken)] {
			if left -= it.bytes; left < 0 && taken+n > 0 {
				break
			}
			n++
		}
		part := b.items[b.from : b.from+n]
		dst = append(dst, part...)
		clear(part)
		taken += n
		b.from += n
		s.queued -= n
		if b.from < b.to {
			return dst
		}
		s.drop(pool)
	}
	return dst
}

// drop gives the first block, which is empty, back to the pool.
func (s *shard) drop(pool *sync.Pool) {
	b := s.head
	if s.head = b.next; s.head == nil {
		s.tail = nil
	}
	b.from, b.to, b.next = 0, 0, nil
	pool.Put(b)
}

// reset empties the queue.
func (s *shard) reset() { s.head, s.tail, s.queued = nil, nil, 0 }
