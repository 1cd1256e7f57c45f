package queue

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"path/filepath"
	"slices"
	"sync"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// maxLosses bounds the ranges that the ledger names one by one. What was lost is
// counted for ever all the same.
const maxLosses = 1024

// Total is what was lost for one reason since the queue was made.
type Total struct {
	Times  uint64 `json:"times"`
	Blocks uint64 `json:"blocks"`
	Points int64  `json:"points"`
	Bytes  int64  `json:"bytes"`
}

// ledger is the content of the losses file: what was declared lost. The file is
// replaced as a whole; losses are rare.
type ledger struct {
	ID     ID               `json:"queue"`
	Totals map[Reason]Total `json:"totals"`
	// Floor is the newest sequence that was dropped, by policy, age or hand:
	// nothing up to here is delivered any more.
	Floor Sequence `json:"floor"`
	// Losses are the newest, in the order in which they were declared.
	Losses []Loss `json:"losses"`
	// Forgotten counts losses that are in Totals but no longer in Losses.
	Forgotten uint64 `json:"forgotten,omitempty"`
	// Unused are numbers between segments that no block bears, in order: they were
	// passed over after a crash, a failed write or by SkipTo, and are no loss.
	Unused [][2]Sequence `json:"unused,omitempty"`
	// Disowned are numbers that are positions of another life of this queue; see Queue.Disown.
	Disowned [][2]Sequence `json:"disowned,omitempty"`
}

func (l *ledger) encode() ([]byte, error) {
	body, err := json.MarshalIndent(l, "", " ")
	if err != nil {
		return nil, errors.WithStack(err)
	}
	b := make([]byte, 16, 16+len(body)+1)
	copy(b, lossesMagic)
	binary.LittleEndian.PutUint16(b[8:], formatVersion)
	b = append(append(b, body...), '\n')
	binary.LittleEndian.PutUint32(b[12:], lossesSum(b))
	return b, nil
}

func lossesSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:12], castagnoli), castagnoli, b[16:])
}

func decodeLedger(b []byte) (l ledger, state headState, version uint16) {
	if len(b) < 16 || string(b[:8]) != lossesMagic || binary.LittleEndian.Uint32(b[12:]) != lossesSum(b) {
		return l, headBad, 0
	}
	version = binary.LittleEndian.Uint16(b[8:])
	if version > formatVersion {
		return l, headNewer, version
	}
	if json.Unmarshal(b[16:], &l) != nil || !l.inOrder() {
		return ledger{}, headBad, 0
	}
	return l, headGood, version
}

// inOrder reports whether all ranges are some.
func (l *ledger) inOrder() bool {
	at := Sequence(0)
	for _, u := range l.Unused {
		if u[0] <= at || u[1] < u[0] {
			return false
		}
		at = u[1]
	}
	return !slices.ContainsFunc(l.Losses, func(x Loss) bool { return x.Last < x.First })
}

func loadLedger(fsys disk.FS, dir string) (l ledger, damaged bool, err error) {
	path := filepath.Join(dir, lossesName)
	b, err := readAll(fsys, path, 8<<20)
	if isNotExist(err) {
		return l, false, nil
	}
	if err != nil {
		return l, false, err
	}
	l, state, version := decodeLedger(b)
	if state == headNewer {
		return l, false, &VersionError{Path: path, Version: version}
	}
	return l, state == headBad, nil
}

// add puts a loss into the books, joined to the one before where they touch.
func (l *ledger) add(loss Loss) {
	if l.Totals == nil {
		l.Totals = make(map[Reason]Total)
	}
	t := l.Totals[loss.Reason]
	t.Times++
	t.Blocks += loss.Blocks
	t.Points += loss.Points
	t.Bytes += loss.Bytes
	l.Totals[loss.Reason] = t
	if n := len(l.Losses); n > 0 && l.Losses[n-1].joins(loss) {
		l.Losses[n-1].join(loss)
		return
	}
	l.Losses = append(l.Losses, loss)
}

// trim forgets single losses: those that the cursor has passed first, then the
// oldest. The latter may be counted again if the queue is read once more before
// the cursor has passed them, which is better than not being counted.
func (l *ledger) trim(cursor Sequence) {
	for len(l.Losses) > maxLosses {
		at := slices.IndexFunc(l.Losses, func(x Loss) bool { return x.Last <= cursor })
		l.Losses = slices.Delete(l.Losses, max(at, 0), max(at, 0)+1)
		l.Forgotten++
	}
}

func (x *Loss) joins(next Loss) bool {
	if x.Reason != next.Reason {
		return false
	}
	return x.First == 0 && next.First == 0 || x.First != 0 && x.Last+1 == next.First
}

func (x *Loss) join(next Loss) {
	x.First, x.Last = min(x.First, next.First), max(x.Last, next.Last)
	x.Blocks += next.Blocks
	x.Points += next.Points
	x.Bytes += next.Bytes
	x.Exact = x.Exact && next.Exact
	x.Time = next.Time
	if x.Oldest == 0 || next.Oldest != 0 && next.Oldest < x.Oldest {
		x.Oldest = next.Oldest
	}
	x.Newest = max(x.Newest, next.Newest)
}

// uncovered returns the parts of [first, last] that are neither declared yet nor
// known to be unused.
func (l *ledger) uncovered(first, last Sequence) [][2]Sequence {
	ranges := slices.Clone(l.Unused)
	for _, x := range l.Losses {
		if x.First != 0 && x.Last >= first && x.First <= last {
			ranges = append(ranges, [2]Sequence{x.First, x.Last})
		}
	}
	slices.SortFunc(ranges, func(a, b [2]Sequence) int { return cmp.Compare(a[0], b[0]) })
	return without(ranges, first, last)
}

// books guards the ledger, and its file.
type books struct {
	mu     sync.Mutex
	ledger ledger
	dirty  bool // something is not in the file yet
	closed bool // Close has gone by: the file may be another's by now
}

// declare records losses durably, and tells the hooks. What is already declared
// of a range is left out, so a reader that starts again counts nothing twice.
// While it fails nothing is declared, and the caller must not pass the range.
func (q *Queue) declare(losses ...Loss) error { return q.declareTo(0, losses...) }

// declareTo is declare, and with the same write raises the floor.
func (q *Queue) declareTo(floor Sequence, losses ...Loss) error {
	q.books.mu.Lock()
	fresh, err := q.declareLocked(floor, losses)
	q.books.mu.Unlock()
	for _, x := range fresh {
		q.tellLoss(x)
	}
	return err
}

func (q *Queue) declareLocked(floor Sequence, losses []Loss) ([]Loss, error) {
	if q.books.closed {
		return nil, ErrClosed
	}
	next := q.books.ledger.clone()
	var fresh []Loss
	for _, x := range losses {
		for _, part := range next.split(x) {
			next.add(part)
			fresh = append(fresh, part)
		}
	}
	if len(fresh) == 0 && floor <= next.Floor {
		return nil, nil
	}
	next.Floor = max(next.Floor, floor)
	next.trim(q.Cursor())
	if err := q.saveLedger(&next); err != nil {
		return nil, err
	}
	q.books.ledger, q.books.dirty = next, false
	return fresh, nil
}

// split leaves out what is declared already. If a part is, nobody knows how many of
// the points and bytes are of the rest.
func (l *ledger) split(x Loss) []Loss {
	if x.First == 0 {
		return []Loss{x}
	}
	parts := l.uncovered(x.First, x.Last)
	if used := l.used(x.First, x.Last); x.Blocks != 0 && len(used) == 1 {
		x.First, x.Last = used[0][0], used[0][1]
		x.Blocks = uint64(x.Last - x.First + 1)
	}
	if x.Blocks == 0 && len(parts) > 0 || len(parts) == 1 && parts[0] == [2]Sequence{x.First, x.Last} {
		return []Loss{x}
	}
	var out []Loss
	for _, p := range parts {
		out = append(out, Loss{
			Reason: x.Reason, First: p[0], Last: p[1], Blocks: uint64(p[1] - p[0] + 1), Time: x.Time, Oldest: x.Oldest, Newest: x.Newest,
		})
	}
	return out
}

func (l *ledger) clone() ledger {
	c := *l
	c.Losses, c.Unused, c.Disowned = slices.Clone(l.Losses), slices.Clone(l.Unused), slices.Clone(l.Disowned)
	c.Totals = make(map[Reason]Total, len(l.Totals))
	for k, v := range l.Totals {
		c.Totals[k] = v
	}
	return c
}

func (q *Queue) saveLedger(l *ledger) error {
	l.ID = q.id
	b, err := l.encode()
	if err != nil {
		return err
	}
	return errors.Wrapf(replaceFile(q.fs, q.dir, lossesName, b), "queue %s: record what is lost", q.name)
}
