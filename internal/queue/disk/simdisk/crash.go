package simdisk

import (
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// chance decides what a power cut leaves.
type chance struct {
	*rand.Rand
	keep float64 // of what was not synced
	junk bool    // what was lost reads as junk, not as zeros
}

// newChance draws how bad it is going to be: all lost, all kept, or anything in
// between.
func newChance(seed uint64) *chance {
	c := &chance{Rand: rand.New(rand.NewPCG(seed, 0x7a11ace))}
	switch c.IntN(6) {
	case 0:
		c.keep = 0
	case 1:
		c.keep = 1
	default:
		c.keep = c.Float64()
	}
	c.junk = c.IntN(4) == 0
	return c
}

func (c *chance) kept() bool { return c.Float64() < c.keep }

// Crash returns the disk as the power cut of this seed leaves it. The disk itself
// goes on.
func (d *Disk) Crash(seed uint64) *Disk {
	c := newChance(seed)
	d.mu.Lock()
	defer d.mu.Unlock()
	after := New(seed)
	after.capacity = d.capacity
	d.crashDirs(c, after)
	seen := make(map[string]bool, len(d.names)+len(d.durable))
	all := make([]string, 0, len(d.names)+len(d.durable))
	for _, m := range []map[string]*inode{d.names, d.durable} {
		for name := range m {
			if !seen[name] {
				seen[name] = true
				all = append(all, name)
			}
		}
	}
	slices.Sort(all) // for the seed to decide
	images := make(map[*inode]*inode, len(all))
	for _, name := range all {
		n := d.durable[name]
		if n != d.names[name] && c.kept() {
			n = d.names[name]
		}
		if parent := filepath.Dir(name); n == nil || !isRoot(parent) && !after.dirs[parent] {
			continue
		}
		if images[n] == nil {
			b := c.tear(slices.Clone(n.durable), n.pending)
			images[n] = &inode{data: b, durable: slices.Clone(b)}
		}
		after.names[name], after.durable[name] = images[n], images[n]
	}
	return after
}

// crashDirs decides which directories are left.
func (d *Disk) crashDirs(c *chance, after *Disk) {
	all := maps.Clone(d.dirs)
	maps.Copy(all, d.kept)
	for _, name := range slices.Sorted(maps.Keys(all)) { // parents come first
		there := d.kept[name]
		if there != d.dirs[name] && c.kept() {
			there = d.dirs[name]
		}
		if parent := filepath.Dir(name); there && (isRoot(parent) || after.dirs[parent]) {
			after.dirs[name], after.kept[name] = true, true
		}
	}
}

// tear applies some of the changes, sector by sector.
func (c *chance) tear(b []byte, changes []change) []byte {
	for _, ch := range changes {
		if ch.data == nil {
			if c.kept() {
				b = apply(b, ch)
			}
			continue
		}
		for from := int64(0); from < int64(len(ch.data)); {
			to := min(int64(len(ch.data)), from+sector-(ch.off+from)%sector)
			part := change{off: ch.off + from, data: ch.data[from:to]}
			switch {
			case c.kept():
				b = apply(b, part)
			case c.junk && c.IntN(3) == 0:
				b = apply(b, change{off: part.off, data: c.noise(len(part.data))})
			}
			from = to
		}
	}
	return b
}

func (c *chance) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(c.Uint32())
	}
	return b
}

// Damage changes a file's content behind the back of every program. It returns
// false if there is no such file.
func (d *Disk) Damage(name string, damage func([]byte) []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[name]
	if n == nil {
		return false
	}
	n.data = damage(slices.Clone(n.data))
	n.durable, n.pending = slices.Clone(n.data), nil
	return true
}

// Delete removes a file behind the back of every program.
func (d *Disk) Delete(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.names, name)
	delete(d.durable, name)
}

// Clone returns an independent copy of the disk as programs see it.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := New(d.seed)
	c.capacity = d.capacity
	for name := range d.dirs {
		c.dirs[name], c.kept[name] = true, true
	}
	for name, n := range d.names {
		image := &inode{data: slices.Clone(n.data), durable: slices.Clone(n.data)}
		c.names[name], c.durable[name] = image, image
	}
	return c
}
