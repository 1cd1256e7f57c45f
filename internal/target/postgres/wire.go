package postgres

// A wire says in which form values of a column travel: the binary form of its type, or, for types
// that have no kind of their own here, text that the server casts.
type wire uint8

const (
	wireCast wire = iota // text, cast to the column's type
	wireBool
	wireInt2
	wireInt4
	wireInt8
	wireFloat4
	wireFloat8
	wireNumeric
	wireText
	wireBytes
	wireTimestamptz
	wireTimestamp
	wireUUID
	wireJSON
	wireJSONB
)

// A wireType names a wire's type to the server.
type wireType struct {
	name string
	oid  uint32
}

// typeOf returns the type of a wire's elements.
func typeOf(w wire) wireType {
	return [...]wireType{
		wireCast:        {"text", 25},
		wireBool:        {"bool", 16},
		wireInt2:        {"int2", 21},
		wireInt4:        {"int4", 23},
		wireInt8:        {"int8", 20},
		wireFloat4:      {"float4", 700},
		wireFloat8:      {"float8", 701},
		wireNumeric:     {"numeric", 1700},
		wireText:        {"text", 25},
		wireBytes:       {"bytea", 17},
		wireTimestamptz: {"timestamptz", 1184},
		wireTimestamp:   {"timestamp", 1114},
		wireUUID:        {"uuid", 2950},
		wireJSON:        {"json", 114},
		wireJSONB:       {"jsonb", 3802},
	}[w]
}

// wireOf returns the wire of a column by the OID of its type.
func wireOf(oid uint32) wire {
	switch oid {
	case 16:
		return wireBool
	case 21:
		return wireInt2
	case 23:
		return wireInt4
	case 20:
		return wireInt8
	case 700:
		return wireFloat4
	case 701:
		return wireFloat8
	case 1700:
		return wireNumeric
	case 25, 1043: // text, varchar
		return wireText
	case 17:
		return wireBytes
	case 1184:
		return wireTimestamptz
	case 1114:
		return wireTimestamp
	case 2950:
		return wireUUID
	case 114:
		return wireJSON
	case 3802:
		return wireJSONB
	}
	return wireCast
}
