package lineprotocol

import (
	"math"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A Field is a field of a point, unescaped. Its value is a Float64, Int64, Uint64, Bool or Text.
type Field struct {
	Key   string
	Value logical.Value
}

// A Point is a point that we make ourselves.
type Point struct {
	Measurement string
	Tags        []Tag
	Fields      []Field
	// Time in nanoseconds since the Unix epoch.
	Time int64
}

// AppendPoint appends the point as a line to dst, its line feed included, or returns dst as it was
// and an error if the point cannot be written so that it is read back as it is: an empty name, NaN,
// a name that ends in a backslash, and what the normaliser would refuse.
func AppendPoint(dst []byte, p *Point) ([]byte, error) {
	out, err := appendPoint(dst, p)
	if err != nil {
		return dst, errors.Wrapf(err, "lineprotocol: cannot encode a point of measurement %s", quoteShort(p.Measurement))
	}
	var s scanner
	line := out[len(dst):]
	at, why := s.line(line, 0, Nanosecond)
	switch {
	case why != fine:
		return dst, errors.Errorf("lineprotocol: cannot encode a point of measurement %s: %s", quoteShort(p.Measurement), why)
	case s.fields.start != s.keyEnd+1:
		return dst, errors.Errorf("lineprotocol: cannot encode a point of measurement %s: the first field key begins with a blank", quoteShort(p.Measurement))
	case at != len(line) || len(line) > MaxLineBytes:
		return dst, errors.Errorf("lineprotocol: cannot encode a point of measurement %s: line too long", quoteShort(p.Measurement))
	}
	return out, nil
}

func appendPoint(dst []byte, p *Point) ([]byte, error) {
	var err error
	if strings.HasPrefix(p.Measurement, "#") || strings.Trim(p.Measurement[:min(1, len(p.Measurement))], "\t\x00\r") == "" {
		return dst, errors.Errorf("the measurement is empty or begins like a comment or a blank")
	}
	if dst, err = appendEscaped(dst, p.Measurement, clsComma|clsSpace); err != nil {
		return dst, err
	}
	for _, t := range p.Tags {
		dst = append(dst, ',')
		if dst, err = appendEscaped(dst, t.Key, escapedInName); err != nil {
			return dst, err
		}
		dst = append(dst, '=')
		if dst, err = appendEscaped(dst, t.Value, escapedInName); err != nil {
			return dst, err
		}
	}
	sep := byte(' ')
	for _, f := range p.Fields {
		dst = append(dst, sep)
		sep = ','
		if strings.Contains(f.Key, `\"`) {
			return dst, errors.Errorf("the field key %s holds a backslash before a quote", quoteShort(f.Key))
		}
		if dst, err = appendEscaped(dst, f.Key, escapedInName); err != nil {
			return dst, err
		}
		dst = append(dst, '=')
		if dst, err = appendValue(dst, f.Value); err != nil {
			return dst, errors.Wrapf(err, "field %s", quoteShort(f.Key))
		}
	}
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, p.Time, 10)
	return append(dst, '\n'), nil
}

// appendEscaped appends a name with a backslash before each byte whose class is in escape.
func appendEscaped(dst []byte, name string, escape uint8) ([]byte, error) {
	switch {
	case name == "":
		return dst, errors.New("a name or a tag's value is empty")
	case name[len(name)-1] == '\\':
		return dst, errors.Errorf("%s ends in a backslash", quoteShort(name))
	}
	for i := range len(name) {
		c := name[i]
		cls := class[c]
		if cls == clsLF {
			return dst, errors.Errorf("%s holds a line feed", quoteShort(name))
		}
		if cls&escape != 0 {
			dst = append(dst, '\\')
		} else if cls == clsEquals && i > 0 && name[i-1] == '\\' {
			return dst, errors.Errorf("%s holds a backslash before an equals sign", quoteShort(name))
		}
		dst = append(dst, c)
	}
	return dst, nil
}

func appendValue(dst []byte, v logical.Value) ([]byte, error) {
	switch v.Kind() {
	case logical.KindFloat64:
		f := v.Float64()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return dst, errors.New("NaN and the infinities cannot be written")
		}
		return strconv.AppendFloat(dst, f, 'g', -1, 64), nil
	case logical.KindInt64:
		return append(strconv.AppendInt(dst, v.Int64(), 10), 'i'), nil
	case logical.KindUint64:
		return append(strconv.AppendUint(dst, v.Uint64(), 10), 'u'), nil
	case logical.KindBool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case logical.KindText:
		dst = append(dst, '"')
		for _, c := range v.Bytes() {
			if c == '"' || c == '\\' {
				dst = append(dst, '\\')
			}
			dst = append(dst, c)
		}
		return append(dst, '"'), nil
	}
	return dst, errors.Errorf("a field cannot be %s", v.Kind())
}
