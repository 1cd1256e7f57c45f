package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// segment is one file of blocks. Fields below the line are guarded by Queue.mu.
type segment struct {
	first Sequence
	gen   uint32
	name  string
	seed  uint32
	// ---
	end    int64 // blocks before here may be read
	size   int64 // bytes on disk, as far as we know
	sealed bool  // nothing will be appended any more
	// last is the last sequence that is valid, if lastKnown. Of a segment of an
	// earlier process only the next one tells.
	last      Sequence
	lastKnown bool
	// since is a time that none of its blocks is older than, zero if not known. Of a
	// segment of an earlier process its header tells.
	since      int64
	sinceKnown bool // it was looked up
}

// ends notes the last sequence. Called with Queue.mu held.
func (s *segment) ends(last Sequence) { s.last, s.lastKnown = last, true }

const segmentSuffix = ".seg"

func segmentName(first Sequence, gen uint32) string {
	return fmt.Sprintf("%020d-%d%s", first, gen, segmentSuffix)
}

// parseSegmentName is strict, so that files of others are left alone.
func parseSegmentName(name string) (first Sequence, gen uint32, ok bool) {
	base, found := strings.CutSuffix(name, segmentSuffix)
	f, g, dash := strings.Cut(base, "-")
	if !found || !dash || len(f) != 20 {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(f, 10, 64)
	if err != nil || n == 0 {
		return 0, 0, false
	}
	m, err := strconv.ParseUint(g, 10, 32)
	if err != nil || segmentName(Sequence(n), uint32(m)) != name {
		return 0, 0, false
	}
	return Sequence(n), uint32(m), true
}

func newSegment(id ID, first Sequence, gen uint32) *segment {
	head := segmentHead{ID: id, First: first, Gen: gen}
	return &segment{first: first, gen: gen, name: segmentName(first, gen), seed: head.seed(), end: dataStart}
}

func compareSegments(a, b *segment) int {
	return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.gen, b.gen))
}

// segmentsOf picks the segments out of a directory, in order.
func segmentsOf(entries []disk.Entry, id ID) []*segment {
	var list []*segment
	for _, e := range entries {
		first, gen, ok := parseSegmentName(e.Name)
		if !ok || !e.Mode.IsRegular() {
			continue
		}
		s := newSegment(id, first, gen)
		s.size, s.end, s.sealed = e.Size, max(e.Size, dataStart), true
		list = append(list, s)
	}
	slices.SortFunc(list, compareSegments)
	return list
}

// readSegmentHead reads whichever copy of the header is good. A file too short
// or damaged in both places has none, which is no error.
func readSegmentHead(f disk.File) (h segmentHead, state headState, version uint16, err error) {
	var b [dataStart]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && n < dataStart && !isEOF(err) {
		return h, headBad, 0, err
	}
	for _, at := range []int{0, headCopyAt} {
		if n < at+fileHeadSize {
			break
		}
		state, version = checkFileHead(b[at:min(n, at+headCopyAt)], segmentMagic)
		switch state {
		case headGood:
			h.decode(b[at:])
			return h, headGood, version, nil
		case headNewer:
			return h, headNewer, version, nil
		}
	}
	return h, headBad, 0, nil
}
