package logical

import "time"

// A Stamp is a position in a source's history: the commit position of one source transaction.
//
// Stamps of one loop are totally ordered. A stamp is immutable, and it is stored as the JSON that
// encoding/json makes of it; [Dialect.DecodeStamp] reads that back after a restart.
type Stamp interface {
	// Compare returns a negative number if the stamp is before other, zero if both are the same
	// position, and a positive number if it is after other. Both come from the same dialect.
	Compare(other Stamp) int
}

// A TimeStamp is a Stamp that knows when its transaction was committed at the source. A loop whose
// stamps know no time never falls back to fan mode by staleness.
type TimeStamp interface {
	Stamp
	// Time returns the commit time by the source's clock, or the zero time if it is not known.
	Time() time.Time
}

// An OffsetStamp is a Stamp that can be shown as a number which grows with the source's history,
// such as a log sequence number. It is shown in the loop's status and metrics, and used for nothing else.
type OffsetStamp interface {
	Stamp
	Offset() uint64
}
