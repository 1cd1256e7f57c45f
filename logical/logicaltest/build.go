package logicaltest

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// Points returns the relation of a measurement.
func Points(name string, tags []string, fields ...logical.Column) *logical.Relation {
	rel := &logical.Relation{Name: name, Points: true, Columns: []logical.Column{
		{Name: "time", Kind: logical.KindTime, Key: true, Role: logical.RoleTime},
		{Name: "series", Kind: logical.KindUUID, Key: true, Role: logical.RoleSeries},
	}}
	for _, tag := range tags {
		rel.Columns = append(rel.Columns, logical.Column{Name: tag, Kind: logical.KindText, Role: logical.RoleTag})
	}
	rel.Columns = append(rel.Columns, fields...)
	return rel
}

// Field returns a column of [Points].
func Field(name string, kind logical.Kind) logical.Column {
	return logical.Column{Name: name, Kind: kind, Role: logical.RoleField}
}

// Point returns a patch of a measurement's row. The values are those of the tags and fields.
func Point(rel *logical.Relation, ns int64, series byte, values ...logical.Value) logical.Mutation {
	id := [16]byte{series, 15: 1}
	return logical.Mutation{
		Op: logical.OpPatch, Relation: rel,
		Values: append([]logical.Value{logical.UnixNano(ns), logical.UUID(&id)}, values...),
	}
}

// Table returns a relation of a database: columns of the kinds given, those whose names begin with
// "k" being the key.
func Table(name string, columns ...logical.Column) *logical.Relation {
	for i := range columns {
		columns[i].Key = columns[i].Name[0] == 'k'
	}
	return &logical.Relation{Name: name, Columns: columns}
}

// Text returns the form of a value by which the suite compares: numbers in decimal, times as
// nanoseconds since 1970, binary data and UUIDs in hexadecimal without dashes, texts as they are. It
// does not know null.
func Text(v logical.Value) string {
	switch v.Kind() {
	case logical.KindBool:
		return strconv.FormatBool(v.Bool())
	case logical.KindInt64:
		return strconv.FormatInt(v.Int64(), 10)
	case logical.KindUint64:
		return strconv.FormatUint(v.Uint64(), 10)
	case logical.KindFloat64:
		return FloatText(v.Float64())
	case logical.KindDecimal:
		return v.Decimal().Text('f')
	case logical.KindTime:
		return TimeText(v.Time())
	case logical.KindBytes, logical.KindUUID:
		return hex.EncodeToString(v.Bytes())
	}
	return v.Text()
}

// FloatText is [Text] of a float.
func FloatText(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// TimeText is [Text] of a time.
func TimeText(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
