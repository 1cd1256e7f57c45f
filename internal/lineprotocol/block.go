package lineprotocol

import "strconv"

const (
	// MaxBlockBytes is the most that a Block holds. A queue takes payloads of 1 MiB, and what is
	// left is room for a header.
	MaxBlockBytes = 1<<20 - 256
	// MaxLineBytes is how long a line may be, as it came and as it is passed on, its end included:
	// a block holds whole lines. A longer line is refused like one that does not parse.
	MaxLineBytes = MaxBlockBytes

	maxTimeLen = len("-9223372036854775806")
)

// A Block is a number of normalised lines, each ending in a line feed.
type Block struct {
	Data   []byte
	Points int
}

// emit appends the line scanned last to the blocks. On failure at is where.
func (n *Normalizer) emit() (at int, why reason) {
	s := &n.scan
	tag, place := n.opt.AddTag.missing(n.in, s)
	size := s.keyEnd - s.start + len(tag) + s.fields.end - s.fields.start + len(" ") + len(" ") + maxTimeLen + len("\n")
	if max(size, s.next-s.start) > MaxLineBytes {
		return s.start + MaxLineBytes, badTooLong
	}
	if s.keyEnd-s.start+len(tag)+keySeparatorLen+s.longest > maxKeyLen {
		return s.keyEnd, badKeyLengthWithTag
	}
	if n.bad != nil && n.opt.Mode == Strict {
		return 0, fine
	}
	b := n.room(size)
	if b == nil {
		return 0, fine // n.err says why.
	}
	from := s.start
	if len(tag) > 0 {
		b.Data = append(append(b.Data, n.in[from:place]...), tag...)
		from = place
	}
	digits := n.in[s.time.start:s.time.end]
	if n.opt.Precision == Nanosecond && canonical(digits) &&
		s.fields.start == s.keyEnd+1 && s.time.start == s.fields.end+1 {
		b.Data = append(b.Data, n.in[from:s.time.end]...)
	} else {
		b.Data = append(b.Data, n.in[from:s.keyEnd]...)
		b.Data = append(b.Data, ' ')
		b.Data = append(b.Data, n.in[s.fields.start:s.fields.end]...)
		b.Data = append(b.Data, ' ')
		if len(digits) == 0 {
			b.Data = append(b.Data, n.now...)
		} else {
			b.Data = strconv.AppendInt(b.Data, s.ts, 10)
		}
	}
	b.Data = append(b.Data, '\n')
	b.Points++
	n.points++
	return 0, fine
}

// canonical reports whether the digits are what strconv would print.
func canonical(digits []byte) bool {
	if len(digits) == 0 {
		return false
	}
	c := digits[0]
	return (c > '0' && c <= '9') || (c == '-' && digits[1] != '0')
}

// reserve announces that a buffer of this size is going to be used. It returns false, and sets n.err,
// if it must not be.
func (n *Normalizer) reserve(size int) bool {
	if n.opt.Reserve != nil && size > 0 {
		n.err = n.opt.Reserve(size)
	}
	return n.err == nil
}

// room returns a block that has room for size bytes more, or nil, with n.err set.
func (n *Normalizer) room(size int) *Block {
	if n.used > 0 && len(n.blocks[n.used-1].Data)+size <= MaxBlockBytes {
		return n.grow(&n.blocks[n.used-1], size)
	}
	if n.used == len(n.blocks) {
		n.blocks = append(n.blocks, Block{})
	}
	b := &n.blocks[n.used]
	if !n.reserve(cap(b.Data)) {
		return nil
	}
	n.used++
	return n.grow(b, size)
}

// grow makes room for size bytes in a block, never for more than a block may hold.
func (n *Normalizer) grow(b *Block, size int) *Block {
	have := cap(b.Data)
	if len(b.Data)+size <= have {
		return b
	}
	want := min(max(2*have, len(b.Data)+size, minBuffer), MaxBlockBytes)
	if !n.reserve(want - have) {
		return nil
	}
	b.Data = append(make([]byte, 0, want), b.Data...)
	return b
}
