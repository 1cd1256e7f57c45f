package queue

// droppable is a group that may be dropped.
type droppable struct {
	dropped int64    // bytes before it
	first   Sequence // of the good ones of its blocks
	time    int64    // what that says
	since   int64    // what its segment says, see enqueued
}

type verdictOnGroup uint8

const (
	keepIt       verdictOnGroup = iota // and all behind it
	dropIt                             // and all before it
	dropWithNext                       // only if one behind it is dropped
)

func dropIf(drop bool) verdictOnGroup {
	if drop {
		return dropIt
	}
	return keepIt
}

// dropping collects what is being dropped, in runs of sequences without a gap: so
// each tells exactly how many blocks it stands for, damaged ones included. What was
// declared lost before is left out.
type dropping struct {
	reason Reason
	open   [][2]Sequence // what is not declared lost yet, in order
	expect Sequence      // the number that comes next
	runs   []Loss
	bytes  int64 // of everything
	any    bool  // there was a block
	held   bool  // the group at hand is dropped only together with one behind it

	// What there was at the end of the last group:
	upTo  Sequence // its last block
	count int      // of runs
	last  Loss     // the last of them
}

// block adds a good block.
func (d *dropping) block(b *scanned) {
	d.any = true
	d.bytes += b.size()
	d.add(b.Sequence, b.Sequence, Loss{
		Reason: d.reason, Points: int64(b.Points), Bytes: b.size(), Exact: true, Oldest: b.Time, Newest: b.Time,
	})
	d.expect = b.Sequence + 1
}

// missing adds the damaged blocks up to one, of which nobody knows the points.
func (d *dropping) missing(upTo Sequence, bytes int64) {
	d.bytes += bytes
	if upTo >= d.expect {
		d.add(d.expect, upTo, Loss{Reason: d.reason, Bytes: bytes})
		d.expect = upTo + 1
	}
}

func (d *dropping) add(first, last Sequence, x Loss) {
	for len(d.open) > 0 && d.open[0][1] < first {
		d.open = d.open[1:]
	}
	for _, o := range d.open {
		x.First, x.Last = max(first, o[0]), min(last, o[1])
		if x.First > x.Last {
			return
		}
		x.Blocks = uint64(x.Last - x.First + 1)
		if n := len(d.runs); n > 0 && d.runs[n-1].joins(x) {
			d.runs[n-1].join(x)
		} else {
			d.runs = append(d.runs, x)
		}
		x.Bytes = 0 // counted once
	}
}

// groupEnds notes that everything so far may be dropped.
func (d *dropping) groupEnds() {
	if !d.any || d.held {
		return
	}
	d.upTo, d.count = d.expect-1, len(d.runs)
	if d.count > 0 {
		d.last = d.runs[d.count-1]
	}
}

// result returns the runs up to the end of the last group.
func (d *dropping) result(now int64) []Loss {
	d.runs = d.runs[:d.count]
	if d.count > 0 {
		d.runs[d.count-1] = d.last
	}
	return d.all(now)
}

// all returns all runs.
func (d *dropping) all(now int64) []Loss {
	for i := range d.runs {
		d.runs[i].Time = now
	}
	return d.runs
}

// total returns the losses as one.
func total(runs []Loss) Loss {
	var sum Loss
	for i, x := range runs {
		if i == 0 {
			sum = x
		} else {
			sum.join(x)
		}
	}
	return sum
}
