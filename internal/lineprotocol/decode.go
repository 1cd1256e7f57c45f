package lineprotocol

import (
	"strconv"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// DecoderConfig configures a Decoder.
type DecoderConfig struct {
	// Schema is the Schema of all Relations.
	Schema string
	// RawOnly leaves Values out, for targets that want Mutation.Raw: mutations carry Raw and Route,
	// and a Relation that has no columns.
	RawOnly bool
	// CacheBytes bounds what is remembered about series; 0 means 16 MiB.
	CacheBytes int
	// RelationBytes bounds what is remembered about the shapes of points; 0 means 4 MiB. Within it,
	// a shape that is in use keeps its Relation.
	RelationBytes int
}

// A Decoder turns the payload of blocks, as a Normalizer makes them, into mutations. It must not be
// used concurrently.
//
// What it hands out it never touches again. Values have memory of their own, and texts are copied out of
// the payload into slabs so small that a mutation holds on to less than a KiB beside its own: of a block of
// which all points but one have landed, that one stays, and not the block (BOUNDED).
type Decoder struct {
	cfg       DecoderConfig
	scan      scanner
	known     cache[*series]
	shapes    cache[*shape]
	layouts   cache[*layout]
	relations cache[*logical.Relation]
	last      *series // of the last point
	lastKey   string  // its key, in the payload being decoded
	fields    []rawField
	sig       []byte
	texts     []byte // free part of a slab
}

// NewDecoder returns a Decoder.
func NewDecoder(cfg DecoderConfig) *Decoder {
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = 16 << 20
	}
	if cfg.RelationBytes == 0 {
		cfg.RelationBytes = 4 << 20
	}
	return &Decoder{
		cfg:       cfg,
		known:     newCache[*series](cfg.CacheBytes),
		shapes:    newCache[*shape](cfg.RelationBytes / 4),
		layouts:   newCache[*layout](cfg.RelationBytes / 2),
		relations: newCache[*logical.Relation](cfg.RelationBytes / 4),
	}
}

// Decode appends a mutation for each of the payload's lines to dst, at most most of them (0: all),
// and returns the lines that are left.
//
// Each is an OpPatch of a Relation with Points set, whose columns are: the time and the series (the
// key), the tags sorted by key, and the fields in the order sent. Of fields that are sent twice the
// last one counts.
//
// A payload that is not what a Normalizer makes is an error; the mutations before it are returned.
func (d *Decoder) Decode(dst []logical.Mutation, payload []byte, most int) ([]logical.Mutation, []byte, error) {
	d.last, d.lastKey = nil, ""
	rest := payload
	for n := 0; len(rest) > 0 && (most <= 0 || n < most); n++ {
		next, at, why := d.point(&dst, rest)
		if why != fine {
			off := len(payload) - len(rest) + at
			return dst, rest, errors.Errorf("lineprotocol: payload is corrupt at byte %d: %s", off, why)
		}
		rest = rest[next:]
	}
	d.last, d.lastKey = nil, "" // Neither the key nor the fields must keep the payload alive.
	clear(d.fields[:cap(d.fields)])
	return dst, rest, nil
}

// point decodes the line at the start of buf.
func (d *Decoder) point(dst *[]logical.Mutation, buf []byte) (next, at int, why reason) {
	if buf[0] == '\n' || buf[0] == ' ' {
		return 0, 0, badMeasurement
	}
	s, i, why := d.seriesOf(buf)
	if why != fine {
		return 0, 0, why
	}
	if d.cfg.RawOnly {
		end, why := d.scan.lineEnd(buf, i)
		if why != fine {
			return 0, i, why
		}
		*dst = append(*dst, logical.Mutation{
			Op: logical.OpPatch, Relation: d.nameOnly(s.shape), Route: s.route, Raw: d.own(buf[:end]),
		})
		return end + 1, 0, fine
	}
	if i, why = d.parseFields(s.shape.last, buf, i+1); why != fine {
		return 0, i, why
	}
	if i, why = d.scan.end(buf, i, Nanosecond); why != fine {
		return 0, i, why
	}
	if d.scan.time.start == d.scan.time.end || buf[i-1] != '\n' {
		return 0, i, badTimestamp
	}
	l := d.layoutOf(s.shape, buf)
	vals, raw := make([]logical.Value, len(l.rel.Columns)), d.own(buf[:i-1])
	vals[0] = logical.UnixNano(d.scan.ts)
	vals[1] = logical.UUID(&s.hash)
	copy(vals[2:], s.tags)
	for k := range d.fields {
		f := &d.fields[k]
		if f.text.end > 0 {
			f.value = logical.TextBytes(raw[f.text.start:f.text.end:f.text.end])
		}
		vals[l.fields[k].column] = f.value
	}
	*dst = append(*dst, logical.Mutation{
		Op: logical.OpPatch, Relation: l.rel, Values: vals, Route: s.route, Raw: raw,
	})
	return i, 0, fine
}

// parseFields decodes the fields at i into d.fields, and returns the index of what follows them. The
// layout is a guess.
func (d *Decoder) parseFields(guess *layout, buf []byte, i int) (at int, why reason) {
	d.fields = d.fields[:0]
	for {
		var f rawField
		known := false
		if k := len(d.fields); guess != nil && k < len(guess.fields) {
			p := guess.fields[k].prefix
			if known = len(buf)-i > len(p) && string(buf[i:i+len(p)]) == p; known {
				f.key = span{i, i + len(p) - 1}
				i += len(p)
			}
		}
		if !known {
			if f.key, i, why = fieldKey(buf, i); why != fine {
				return i, why
			}
		}
		start := i
		if f.value, i, why = d.value(buf, i); why != fine {
			return i, why
		}
		if buf[start] == '"' && !hasBackslash(buf[start:i]) {
			f.text = span{start + 1, i - 1}
		}
		d.fields = append(d.fields, f)
		if i >= len(buf) || buf[i] != ',' {
			return i, fine
		}
		i++
	}
}

// value decodes the value at i.
func (d *Decoder) value(buf []byte, i int) (v logical.Value, end int, why reason) {
	if i >= len(buf) {
		return v, i, badFieldValue
	}
	switch c := buf[i]; {
	case c-'0' <= 9 || c == '-' || c == '.':
		var n number
		if n, end, why = scanNumber(buf, i); why != fine {
			return v, end, why
		}
		if v, why = n.value(buf[i:end]); why != fine {
			return v, end, why
		}
	case c == '"':
		if end, why = stringEnd(buf, i); why != fine {
			return v, end, why
		}
		v = logical.TextBytes(d.text(buf[i+1 : end-1]))
	default:
		var b bool
		if b, end, why = scanBool(buf, i); why != fine {
			return v, end, why
		}
		v = logical.Bool(b)
	}
	return v, end, checkDelimiter(buf, end)
}

// value returns the number as a value; text is what it was made of.
func (n number) value(text []byte) (logical.Value, reason) {
	switch n.kind {
	case logical.KindInt64:
		return logical.Int64(int64(n.bits)), fine
	case logical.KindUint64:
		return logical.Uint64(n.bits), fine
	}
	if n.exact {
		return logical.Float64(n.float()), fine
	}
	f, err := strconv.ParseFloat(str(text), 64)
	if err != nil {
		return logical.Value{}, badFloat
	}
	return logical.Float64(f), fine
}

// text returns the text of a string. Without an escape it is in the payload.
func (d *Decoder) text(raw []byte) []byte {
	if !hasBackslash(raw) {
		return raw
	}
	return appendString(make([]byte, 0, len(raw)), raw)
}

// slabBytes is how large slabs are, and texts that have memory of their own at least half as large.
const slabBytes = 512

// own returns a copy of the text.
func (d *Decoder) own(text []byte) []byte {
	if len(text) > slabBytes/2 {
		return append(make([]byte, 0, len(text)), text...)
	}
	if cap(d.texts) < len(text) {
		d.texts = make([]byte, 0, slabBytes)
	}
	out := append(d.texts, text...)
	d.texts = out[len(out):]
	return out[:len(out):len(out)]
}
