// Package lru keeps what was used last, up to a bound.
package lru

import "container/list"

// A Cache holds entries up to a total weight, and lets those go that were not used for the longest time. It is not
// safe for concurrent use.
type Cache[K comparable, V any] struct {
	most    int
	weight  int
	dropped func(K, V)
	entries map[K]*list.Element
	order   *list.List // of *entry, the last used first
}

type entry[K comparable, V any] struct {
	key    K
	value  V
	weight int
}

// New returns an empty cache. Dropped, if it is not nil, is told of each entry that is let go for another one.
func New[K comparable, V any](most int, dropped func(K, V)) *Cache[K, V] {
	return &Cache[K, V]{most: most, dropped: dropped, entries: map[K]*list.Element{}, order: list.New()}
}

// Get returns the value of a key, which counts as used.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	e, ok := c.entries[key]
	if !ok {
		return value, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry[K, V]).value, true
}

// Put adds an entry, in the place of one that the key may have. An entry that weighs more than all may is not kept.
func (c *Cache[K, V]) Put(key K, value V, weight int) {
	c.Remove(key)
	if weight > c.most {
		return
	}
	c.entries[key] = c.order.PushFront(&entry[K, V]{key, value, weight})
	c.weight += weight
	for c.weight > c.most {
		oldest := c.order.Back().Value.(*entry[K, V])
		c.Remove(oldest.key)
		if c.dropped != nil {
			c.dropped(oldest.key, oldest.value)
		}
	}
}

// Remove forgets a key, without telling.
func (c *Cache[K, V]) Remove(key K) {
	if e, ok := c.entries[key]; ok {
		c.weight -= c.order.Remove(e).(*entry[K, V]).weight
		delete(c.entries, key)
	}
}

// Len returns the number of entries.
func (c *Cache[K, V]) Len() int { return len(c.entries) }

// Weight returns the sum of their weights.
func (c *Cache[K, V]) Weight() int { return c.weight }
