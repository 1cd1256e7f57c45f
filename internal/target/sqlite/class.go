package sqlite

import (
	"strings"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A class says how values are put into a column.
type class uint8

const (
	// What SQLite calls affinities, for tables that somebody else made.
	classInteger class = iota
	classReal
	classNumeric
	classText
	classBlob
	classAny

	// Fields of points in tables that Tailrace made: what the column is for is known better than by
	// its declared type, and a value of another type is refused as InfluxDB would refuse it, unless
	// nothing is lost by converting it.
	classFieldFloat  // REAL
	classFieldInt    // INTEGER
	classFieldUint   // TEXT
	classFieldBool   // INTEGER, 0 or 1
	classFieldString // TEXT
)

// classOfDeclared follows SQLite's rules for the affinity of a declared type.
func classOfDeclared(declared string) class {
	d := strings.ToUpper(declared)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(d, p) {
				return true
			}
		}
		return false
	}
	switch {
	case d == "ANY":
		return classAny
	case has("INT"):
		return classInteger
	case has("CHAR", "CLOB", "TEXT"):
		return classText
	case d == "" || has("BLOB"):
		return classBlob
	case has("REAL", "FLOA", "DOUB"): //nolint:misspell // what SQLite looks for
		return classReal
	}
	return classNumeric
}

// classOfField returns how a field of the given kind is stored, and the declared type of its column.
func classOfField(kind logical.Kind) (class, string) {
	switch kind {
	case logical.KindFloat64:
		return classFieldFloat, "REAL"
	case logical.KindInt64:
		return classFieldInt, "INTEGER"
	case logical.KindUint64:
		return classFieldUint, "TEXT"
	case logical.KindBool:
		return classFieldBool, "INTEGER"
	case logical.KindText:
		return classFieldString, "TEXT"
	case logical.KindTime:
		return classInteger, "INTEGER"
	case logical.KindBytes, logical.KindUUID:
		return classBlob, "BLOB"
	}
	return classText, "TEXT"
}

// kindNamed is the reverse of Kind.String for kinds that name a column's class.
func kindNamed(name string) logical.Kind {
	for k := logical.KindAbsent; k <= logical.KindJSON; k++ {
		if k.String() == name {
			return k
		}
	}
	return logical.KindText
}
