package lineprotocol

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A series is what is known about one key: the raw bytes of a measurement with its tags. It is
// immutable, because mutations that were handed out point into it.
type series struct {
	hash  [16]byte
	route uint64
	shape *shape
	tags  []logical.Value // in the order of the shape's keys
}

// A shape is a measurement with its tag keys.
type shape struct {
	measurement string
	tagKeys     []string
	prefix      string  // of the signatures of its layouts
	last        *layout // of the last point, which is very likely that of the next
	named       *logical.Relation
}

// A layout is a sequence of fields as points carry them: raw keys and kinds. Several layouts share a
// Relation if keys that come twice or are escaped needlessly make the only difference.
type layout struct {
	fields []layoutField
	rel    *logical.Relation
}

type layoutField struct {
	prefix string // the raw key with its equals sign
	kind   logical.Kind
	column int // index in the Relation
}

// A rawField is a field of the point being decoded.
type rawField struct {
	key   span
	value logical.Value
	text  span // of a string that is written as it is, in the line
}

// matches reports whether the fields are those of the layout.
func (l *layout) matches(buf []byte, fields []rawField) bool {
	if l == nil || len(l.fields) != len(fields) {
		return false
	}
	for i := range fields {
		f, key := &l.fields[i], fields[i].key
		if f.kind != fields[i].value.Kind() || f.prefix[:len(f.prefix)-1] != string(buf[key.start:key.end]) {
			return false
		}
	}
	return true
}

// layoutOf returns the layout of the point whose fields are in d.fields.
func (d *Decoder) layoutOf(s *shape, buf []byte) *layout {
	if s.last.matches(buf, d.fields) {
		return s.last
	}
	d.sig = append(d.sig[:0], s.prefix...)
	for _, f := range d.fields {
		d.sig = append(d.sig, buf[f.key.start:f.key.end]...)
		d.sig = append(d.sig, '=', byte(f.value.Kind()))
	}
	l, ok := d.layouts.get(d.sig)
	if !ok {
		sig := string(d.sig)
		l = d.newLayout(s, buf)
		d.layouts.put(sig, l, len(l.fields)*int(unsafe.Sizeof(layoutField{}))+len(sig))
	}
	s.last = l
	return l
}

// newLayout works out the columns of the point whose fields are in d.fields. Of two fields with one
// key the last one counts, at the place of the first.
func (d *Decoder) newLayout(s *shape, buf []byte) *layout {
	l := &layout{fields: make([]layoutField, len(d.fields))}
	first := 2 + len(s.tagKeys)
	columns := make([]logical.Column, first, first+len(d.fields))
	columns[0] = logical.Column{Name: "time", Kind: logical.KindTime, Key: true, Role: logical.RoleTime}
	columns[1] = logical.Column{Name: "series", Kind: logical.KindUUID, Key: true, Role: logical.RoleSeries}
	for i, key := range s.tagKeys {
		columns[2+i] = logical.Column{Name: key, Kind: logical.KindText, Role: logical.RoleTag}
	}
	at := make(map[string]int, len(d.fields))
	for i, f := range d.fields {
		raw, kind := buf[f.key.start:f.key.end], f.value.Kind()
		name := string(appendFieldKey(nil, raw))
		column, dup := at[name]
		if !dup {
			column = len(columns)
			columns = append(columns, logical.Column{Name: name, Role: logical.RoleField})
			at[name] = column
		}
		columns[column].Kind = kind
		l.fields[i] = layoutField{prefix: string(raw) + "=", kind: kind, column: column}
	}
	l.rel = d.intern(s, columns[:len(columns):len(columns)])
	return l
}

// intern returns the Relation that has these columns.
func (d *Decoder) intern(s *shape, columns []logical.Column) *logical.Relation {
	sig := append([]byte(nil), s.prefix...)
	for _, c := range columns[2+len(s.tagKeys):] {
		sig = appendSized(sig, c.Name)
		sig = append(sig, byte(c.Kind))
	}
	rel, ok := d.relations.get(sig)
	if !ok {
		rel = &logical.Relation{Schema: d.cfg.Schema, Name: s.measurement, Columns: columns, Points: true}
		cost := len(sig) + len(columns)*int(unsafe.Sizeof(logical.Column{}))
		d.relations.put(string(sig), rel, cost)
	}
	return rel
}

// seriesOf returns what is known about the key at the start of buf, and the key's length.
func (d *Decoder) seriesOf(buf []byte) (s *series, keyLen int, why reason) {
	if n := len(d.lastKey); n > 0 && n < len(buf) && buf[n] == ' ' && string(buf[:n]) == d.lastKey {
		return d.last, n, fine
	}
	end := nameEnd(buf, 0, clsSpace)
	key := buf[:end]
	s, ok := d.known.get(key)
	if !ok {
		if _, why = d.scan.key(buf, 0); why != fine {
			return nil, 0, why
		}
		end, key = d.scan.keyEnd, buf[:d.scan.keyEnd]
		s = d.newSeries(buf)
		cost := int(unsafe.Sizeof(*s)) + len(key) + len(s.tags)*int(unsafe.Sizeof(logical.Value{}))
		d.known.put(string(key), s, cost)
	}
	d.last, d.lastKey = s, str(key)
	return s, end, fine
}

// newSeries decodes the key that was scanned last.
func (d *Decoder) newSeries(buf []byte) *series {
	name := func(s span) string { return string(appendName(nil, buf[s.start:s.end])) }
	tags := make([]Tag, len(d.scan.tags))
	for i := range tags {
		tags[i] = Tag{Key: name(d.scan.tags[i]), Value: name(d.scan.vals[i])}
	}
	slices.SortFunc(tags, byKey)
	s := &series{hash: hashSorted(tags), tags: make([]logical.Value, len(tags))}
	measurement := name(span{d.scan.start, d.scan.measEnd})
	prefix := appendSized(nil, measurement)
	prefix = binary.BigEndian.AppendUint32(prefix, uint32(len(tags)))
	for i, t := range tags {
		s.tags[i] = logical.Text(t.Value)
		prefix = appendSized(prefix, t.Key)
	}
	s.route = routeOf(s.hash, measurement)
	s.shape = d.shapeOf(prefix, measurement, tags)
	return s
}

func (d *Decoder) shapeOf(prefix []byte, measurement string, tags []Tag) *shape {
	sh, ok := d.shapes.get(prefix)
	if !ok {
		sh = &shape{measurement: measurement, prefix: string(prefix), tagKeys: make([]string, len(tags))}
		for i, t := range tags {
			sh.tagKeys[i] = t.Key
		}
		d.shapes.put(sh.prefix, sh, len(prefix)+16*len(tags)+int(unsafe.Sizeof(*sh)))
	}
	return sh
}

// nameOnly returns a Relation that names the series' measurement and has no columns.
func (d *Decoder) nameOnly(s *shape) *logical.Relation {
	if s.named == nil {
		key := []byte(s.measurement)
		rel, ok := d.relations.get(key)
		if !ok {
			rel = &logical.Relation{Schema: d.cfg.Schema, Name: s.measurement, Points: true}
			d.relations.put(s.measurement, rel, int(unsafe.Sizeof(*rel)))
		}
		s.named = rel
	}
	return s.named
}

// hasBackslash reports whether b needs unescaping.
func hasBackslash(b []byte) bool { return bytes.IndexByte(b, backslashByte) >= 0 }
