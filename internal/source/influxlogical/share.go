package influxlogical

import (
	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/lineprotocol/filter"
	"github.com/tailrace-cdc/tailrace/internal/queue"
)

// A share is what a stream takes of a write request.
type share struct {
	stream *Stream
	group  *queue.Group
	left   int // points that its filter keeps back
}

// shares are those of all streams of a bucket in one write request. Streams that take everything have
// one group together, so that it is compressed once.
type shares struct {
	all   []share
	whole *queue.Group
	used  []*queue.Group // to be given back
}

// share divides a write request among streams. A stream of which the filter lets nothing pass has no
// group.
func (s *Streams) share(streams []*Stream, blocks []lineprotocol.Block) (*shares, error) {
	d := &shares{all: make([]share, 0, len(streams))}
	for _, stream := range streams {
		sh, err := s.shareOf(d, stream, blocks)
		if err != nil {
			s.release(d)
			return nil, err
		}
		d.all = append(d.all, sh)
	}
	return d, nil
}

func (s *Streams) shareOf(d *shares, stream *Stream, blocks []lineprotocol.Block) (share, error) {
	sh := share{stream: stream}
	if f := stream.filter.Load(); f != nil {
		group, left, err := s.sift(d, f, blocks)
		if err != nil || left > 0 {
			sh.group, sh.left = group, left
			return sh, err
		}
	}
	if d.whole == nil {
		d.whole = s.newGroup(d)
		for _, b := range blocks {
			if err := d.whole.Add(queue.KindLineProtocol, b.Points, b.Data); err != nil {
				return sh, err
			}
		}
	}
	sh.group = d.whole
	return sh, nil
}

// sift makes a group of what passes a filter, and returns how many points do not. If all do, or none, there
// is no group.
func (s *Streams) sift(d *shares, f *filter.Filter, blocks []lineprotocol.Block) (group *queue.Group, left int, err error) {
	sieve := s.sieves.Get().(*filter.Sieve)
	defer s.sieves.Put(sieve)
	passed := 0 // leading blocks that pass as a whole
	for _, b := range blocks {
		kept, err := sieve.Block(f, b)
		if err != nil {
			return nil, 0, err
		}
		if left += b.Points - kept.Points; left == 0 {
			passed++
			continue
		}
		if group == nil {
			group = s.newGroup(d)
			for _, b := range blocks[:passed] {
				if err := group.Add(queue.KindLineProtocol, b.Points, b.Data); err != nil {
					return nil, 0, err
				}
			}
		}
		if kept.Points > 0 {
			if err := group.Add(queue.KindLineProtocol, kept.Points, kept.Data); err != nil {
				return nil, 0, err
			}
		}
	}
	if group != nil && group.Blocks() == 0 {
		group = nil
	}
	return group, left, nil
}

func (s *Streams) newGroup(d *shares) *queue.Group {
	group := s.groups.Get().(*queue.Group)
	group.Reset()
	d.used = append(d.used, group)
	return group
}

// release gives the groups back.
func (s *Streams) release(d *shares) {
	for _, group := range d.used {
		s.groups.Put(group)
	}
}

// countFiltered counts what the filters kept back, when the request is kept.
func (d *shares) countFiltered() {
	for _, sh := range d.all {
		sh.stream.filtered.Add(uint64(sh.left))
	}
}
