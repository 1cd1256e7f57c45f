package meter

import (
	"math"
	"sort"
	"sync/atomic"
)

// A Histogram is what a histogram held at one time.
type Histogram struct {
	// Count and Sum are of all observations.
	Count uint64
	Sum   float64
	// Buckets holds how many observations were at most the key.
	Buckets map[float64]uint64
}

type histogram struct {
	bounds []float64
	counts []atomic.Uint64 // by bucket, not cumulative; the last is beyond all bounds
	sum    atomic.Uint64   // the bits of a float64
}

func newHistogram(bounds ...float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	h.counts[sort.SearchFloat64s(h.bounds, v)].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

func (h *histogram) read() Histogram {
	r := Histogram{Buckets: make(map[float64]uint64, len(h.bounds)), Sum: math.Float64frombits(h.sum.Load())}
	for i := range h.counts {
		r.Count += h.counts[i].Load()
		if i < len(h.bounds) {
			r.Buckets[h.bounds[i]] = r.Count
		}
	}
	return r
}
