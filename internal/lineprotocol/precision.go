package lineprotocol

import (
	"strconv"
	"time"

	"github.com/pkg/errors"
)

// Precision is the unit of the timestamps in a request, in nanoseconds.
type Precision int64

// The units that the write interfaces know.
const (
	Nanosecond  Precision = 1
	Microsecond           = 1000 * Nanosecond
	Millisecond           = 1000 * Microsecond
	Second                = 1000 * Millisecond
	Minute                = 60 * Second
	Hour                  = 60 * Minute
)

// The range of a point's time, in nanoseconds since the Unix epoch. It is InfluxDB's: the two lowest
// integers and the highest one are sentinels there.
const (
	MinTime int64 = -9223372036854775806
	MaxTime int64 = 9223372036854775806
)

// ParsePrecisionV1 reads the precision parameter of /write. Empty means nanoseconds.
func ParsePrecisionV1(s string) (Precision, error) {
	switch s {
	case "", "n", "ns":
		return Nanosecond, nil
	case "u", "us":
		return Microsecond, nil
	case "ms":
		return Millisecond, nil
	case "s":
		return Second, nil
	case "m":
		return Minute, nil
	case "h":
		return Hour, nil
	}
	return 0, errors.Errorf("invalid precision %s: use n, ns, u, us, ms, s, m or h", quoteShort(s))
}

// ParsePrecisionV2 reads the precision parameter of /api/v2/write. Empty means nanoseconds.
func ParsePrecisionV2(s string) (Precision, error) {
	switch s {
	case "", "ns":
		return Nanosecond, nil
	case "us":
		return Microsecond, nil
	case "ms":
		return Millisecond, nil
	case "s":
		return Second, nil
	}
	return 0, errors.Errorf("invalid precision %s: use ns, us, ms or s", quoteShort(s))
}

// Truncate returns t in nanoseconds, rounded down to the precision. It is what a point without a
// timestamp gets.
func (p Precision) Truncate(t time.Time) int64 {
	ns, unit := t.UnixNano(), int64(p)
	if unit <= 1 {
		return ns
	}
	rest := ns % unit
	if rest < 0 {
		rest += unit
	}
	return ns - rest
}

// nanos turns a timestamp of the precision into nanoseconds; ok is false if it is out of range.
func (p Precision) nanos(ts int64) (ns int64, ok bool) {
	unit := int64(p)
	if ts < MinTime/unit || ts > MaxTime/unit {
		return 0, false
	}
	return ts * unit, true
}

// quoteShort quotes what a client sent for an error message, and cuts it if it is long.
func quoteShort(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}
