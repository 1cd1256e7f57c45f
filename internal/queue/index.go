package queue

import (
	"cmp"
	"slices"
)

// place is where a block lies. Its time is zero while nobody has looked at it.
type place struct {
	seg  *segment
	off  int64
	seq  Sequence
	time int64
}

// index remembers where blocks lie, so that an acknowledgement seldom has to look
// into a file. Its memory is bounded: when it is full it forgets every second
// place, so it always reaches from one end to the other, ever more coarsely.
type index struct{ places []place }

const maxPlaces = 1024

// add puts a place at the end. Places that are not newer than the end are known.
func (x *index) add(p place) {
	n := len(x.places)
	if n > 0 && x.places[n-1].seq >= p.seq {
		if last := &x.places[n-1]; last.seq == p.seq && last.time == 0 {
			*last = p
		}
		return
	}
	if n == maxPlaces {
		for i := range n / 2 {
			x.places[i] = x.places[2*i]
		}
		x.places = x.places[:n/2]
	}
	if x.places == nil {
		x.places = make([]place, 0, 64)
	}
	x.places = append(x.places, p)
}

// find returns the last place at or before seq.
func (x *index) find(seq Sequence) (place, bool) {
	i, exact := x.search(seq)
	if !exact {
		i--
	}
	if i < 0 {
		return place{}, false
	}
	return x.places[i], true
}

func (x *index) search(seq Sequence) (int, bool) {
	return slices.BinarySearchFunc(x.places, seq, func(p place, s Sequence) int { return cmp.Compare(p.seq, s) })
}

// forget drops the places before seq.
func (x *index) forget(seq Sequence) {
	n, _ := x.search(seq)
	// Moving is left until it pays.
	if n == len(x.places) {
		x.places = x.places[:0]
	} else if n > len(x.places)/2 {
		x.places = slices.Delete(x.places, 0, n)
	}
}

// cut drops the places from seq on, whose blocks now lie elsewhere.
func (x *index) cut(seq Sequence) {
	n := len(x.places)
	for n > 0 && x.places[n-1].seq >= seq {
		n--
	}
	x.places = x.places[:n]
}
