package metadata

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/pkg/errors"
)

// An ID names something for ever. It is printed as 16 lower-case hexadecimal digits; zero is none.
type ID uint64

// ErrInvalidID says that a text is no ID.
var ErrInvalidID = errors.New("id must be 16 lower-case hexadecimal digits, and not all zero")

// ParseID reads what String writes.
func ParseID(text string) (ID, error) {
	if len(text) != 16 {
		return 0, ErrInvalidID
	}
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return 0, ErrInvalidID
		}
	}
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil || n == 0 {
		return 0, ErrInvalidID
	}
	return ID(n), nil
}

// String returns the 16 digits.
func (id ID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID(string(text))
	return err
}

// The layout of an ID, which is InfluxDB's: milliseconds since idEpoch, a machine, a count.
const (
	idEpoch     = 1491696000000 // 2017-04-09, in milliseconds since 1970
	machines    = 1023
	countBits   = 12
	machineBits = 10
)

// ids makes IDs that grow. Its machine is random, so that installations rarely make the same ones.
type ids struct {
	now func() time.Time

	mu      sync.Mutex
	machine uint64
	last    uint64 // milliseconds
	count   uint64
}

func newIDs(now func() time.Time) *ids {
	return &ids{now: now, machine: rand.Uint64N(machines)}
}

// next returns a new ID. When a millisecond's count is used up, or the clock was set back, it goes on
// from the last one's time.
func (g *ids) next() ID {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := uint64(max(g.now().UnixMilli()-idEpoch, 1))
	if at > g.last {
		g.last, g.count = at, 0
	} else if g.count++; g.count == 1<<countBits {
		g.last, g.count = g.last+1, 0
	}
	return ID(g.last<<(machineBits+countBits) | g.machine<<countBits | g.count)
}
