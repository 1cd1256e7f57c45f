package budget

import (
	"container/heap"
	"slices"
	"sync"
)

// A Pool is what several budgets hold together.
type Pool struct {
	size int64

	mu         sync.Mutex
	joined     int64 // how many budgets there are
	guaranteed int64 // their guarantees
	lent       int64 // what is held beyond them
	used       int64
	peak       int64
	queue      queue
}

// maxLeaves bounds how many times what a budget has borrowed it leaves to the others.
const maxLeaves = 8

// leaves is how many times that is: as many as there are budgets. The pool is locked.
func (p *Pool) leaves() int64 { return min(p.joined, maxLeaves) }

// NewPool returns a pool of size bytes.
func NewPool(size int64) *Pool { return &Pool{size: size} }

// Join returns a budget of at most size bytes, of which guarantee can be had whatever others hold. It is
// to be left.
func (p *Pool) Join(size, guarantee int64) *Budget {
	p.mu.Lock()
	defer p.mu.Unlock()
	guarantee = min(guarantee, size)
	p.joined++
	p.guaranteed += guarantee
	return &Budget{pool: p, size: size, guarantee: guarantee}
}

// Size returns the most bytes that are held in all, single requests aside that are larger than a guarantee.
func (p *Pool) Size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.size, p.size/2+p.guaranteed)
}

// Usage returns the bytes that are held in all, and the most that ever were.
func (p *Pool) Usage() (used, peak int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used, p.peak
}

// free returns what is to be lent. The pool is locked.
func (p *Pool) free() int64 { return p.size/2 - p.lent }

// serve serves whoever waits to borrow and now can, those first who need least. The pool is locked.
func (p *Pool) serve() {
	for len(p.queue) > 0 && p.queue[0].place.needs <= p.free() {
		heap.Pop(&p.queue).(*Budget).serve()
	}
}

// reconsider serves whoever waits to borrow and now can, because there are fewer who want something left. The
// pool is locked.
func (p *Pool) reconsider() {
	for _, b := range slices.Clone(p.queue) {
		b.serve()
	}
}

// enqueue has a budget wait until so many bytes are free. The pool is locked.
func (p *Pool) enqueue(b *Budget, needs int64) {
	b.place.needs = needs
	if b.place.waits {
		heap.Fix(&p.queue, b.place.index)
		return
	}
	heap.Push(&p.queue, b)
}

// unqueue ends the waiting, if the budget waits. The pool is locked.
func (p *Pool) unqueue(b *Budget) {
	if b.place.waits {
		heap.Remove(&p.queue, b.place.index)
	}
}

// place is where a budget stands in a queue.
type place struct {
	waits bool
	index int
	needs int64 // free bytes
}

// queue is a heap of the budgets that wait to borrow: the one that needs the fewest free bytes is first.
type queue []*Budget

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].place.needs < q[j].place.needs }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place.index, q[j].place.index = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	b := x.(*Budget)
	b.place.waits, b.place.index = true, len(*q)
	*q = append(*q, b)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	b := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	b.place.waits = false
	return b
}
