package lineprotocol

// A cache keeps values by key within a bound. It has two generations: what is found in the old one
// moves to the young one, and when the young one has used half of the bound, it becomes the old one
// and what was left there is forgotten. So everything that is in use stays, at a constant cost.
type cache[V any] struct {
	young, old map[string]cached[V]
	used       int
	limit      int // bytes, for both generations
}

type cached[V any] struct {
	value V
	cost  int
}

func newCache[V any](limit int) cache[V] {
	return cache[V]{young: map[string]cached[V]{}, limit: limit}
}

// get looks a value up; it allocates only when a value changes its generation.
func (c *cache[V]) get(key []byte) (V, bool) {
	if e, ok := c.young[string(key)]; ok {
		return e.value, true
	}
	e, ok := c.old[string(key)]
	if ok {
		delete(c.old, string(key))
		c.put(string(key), e.value, e.cost)
	}
	return e.value, ok
}

// put adds a value that is not there. The cost is what it takes besides the key.
func (c *cache[V]) put(key string, v V, cost int) {
	const entry = 64 // of a map, roughly
	if c.used > 0 && c.used+cost+len(key)+entry > c.limit/2 {
		c.old, c.young, c.used = c.young, make(map[string]cached[V], len(c.young)/2), 0
	}
	c.young[key] = cached[V]{v, cost}
	c.used += cost + len(key) + entry
}
