package logical

// A Relation describes the rows of one table as the source sees them. Mutations that have the same
// shape share one Relation, so that a target can plan once for many: a dialect hands out the same
// pointer again for the same shape, and makes a new Relation when the shape changes. A Relation is
// immutable once a mutation refers to it.
type Relation struct {
	// Schema is the schema (database, bucket) as the target should see it; empty means the
	// target's default.
	Schema string
	// Name is the table's name (the measurement), in the case and spelling of the source.
	Name string
	// Columns are the columns in the order of Mutation.Values.
	Columns []Column
	// Points says that this is a measurement of time series and not a table of a database. The
	// target creates the table and adds columns while the stream runs, and a patch of a row that
	// does not exist inserts it.
	Points bool
}

// A Column of a Relation.
type Column struct {
	// Name in the case and spelling of the source.
	Name string
	// Kind is the declared kind: that of all values which are neither null nor absent.
	Kind Kind
	// Key says that the column is part of the row's key. Key values are never absent.
	Key bool
	// Role tells the parts of a point from each other; zero for a table of a database.
	Role Role
	// TypeName is the source's own name of the type, such as "int4[]" or "mood", where a target of
	// the same family may use it as a cast; otherwise empty.
	TypeName string
}

// Role tells the columns of a measurement from each other: a tag and a field may have one name.
type Role uint8

// The roles. A measurement has one RoleTime column and one RoleSeries column, both keys.
const (
	RoleNone   Role = iota
	RoleTime        // the point's time, KindTime
	RoleSeries      // the 128-bit hash of the tag set, KindUUID
	RoleTag         // a tag, KindText
	RoleField       // a field
)

// KeyColumns returns the indexes of the key columns, in column order.
func (r *Relation) KeyColumns() []int {
	var keys []int
	for i := range r.Columns {
		if r.Columns[i].Key {
			keys = append(keys, i)
		}
	}
	return keys
}

// String returns the qualified name for messages. It is not quoted for SQL.
func (r *Relation) String() string {
	if r.Schema == "" {
		return r.Name
	}
	return r.Schema + "." + r.Name
}
