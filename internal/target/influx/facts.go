package influx

import (
	"sync"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// Facts is what is known about the traffic with a remote, now. Counts are since the target was opened.
type Facts struct {
	// Kind is the API in use, "" while it is not known; Version is what the remote says of itself, and
	// Recognised whether it has said anything of the sort.
	Kind       Kind
	Version    string
	Recognised bool
	// LatestResponseCode is the status of the last answer to a write: 0 if there was none, or none yet.
	LatestResponseCode int
	// LatestErrorMessage is why the last write failed, or "" if it did not; LatestErrorAt is its time.
	LatestErrorMessage string
	LatestErrorAt      time.Time
	// LastAttemptAt is when the remote was last written to, and LastSuccessAt when it last took it; zero if
	// never.
	LastAttemptAt, LastSuccessAt time.Time
	// Requests counts writes, InFlight is how many wait for their answer, and Took is the sum of how long
	// they waited.
	Requests int64
	InFlight int
	Took     time.Duration
	// PointsSent and BytesSent count what was accepted; bytes as they travelled, compressed or not.
	PointsSent, BytesSent int64
	// PointsSetAside and BytesSetAside count lines that were rejected for good and kept as dead letters.
	PointsSetAside, BytesSetAside int64
	// RequestBytes is how large a request may be at present, before compression.
	RequestBytes int
}

// Facts returns what is known now.
func (t *Target) Facts() Facts {
	f := t.facts.snapshot()
	f.Kind, f.Version, f.Recognised = t.peer.get()
	f.RequestBytes = t.sizer.bytes()
	return f
}

// recorder keeps the facts.
type recorder struct {
	now     func() time.Time
	metrics metrics

	mu    sync.Mutex
	facts Facts
}

func (r *recorder) init(id string) {
	r.now = time.Now
	r.metrics = newMetrics(id)
}

func (r *recorder) snapshot() Facts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts
}

func (r *recorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts.Requests++
	r.facts.InFlight++
	r.facts.LastAttemptAt = r.now()
}

func (r *recorder) end(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts.InFlight--
	r.facts.Took += took
	r.metrics.took.Observe(took.Seconds())
}

func (r *recorder) stored(status, points, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &r.facts
	f.LatestResponseCode, f.LatestErrorMessage, f.LatestErrorAt = status, "", time.Time{}
	f.LastSuccessAt = r.now()
	f.PointsSent += int64(points)
	f.BytesSent += int64(bytes)
}

func (r *recorder) failed(status int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &r.facts
	f.LatestResponseCode, f.LatestErrorMessage, f.LatestErrorAt = status, err.Error(), r.now()
	r.metrics.errors.WithLabelValues(itoa(status)).Inc()
}

func (r *recorder) setAside(letters []logical.DeadLetter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts.PointsSetAside += int64(len(letters))
	for i := range letters {
		r.facts.BytesSetAside += int64(len(letters[i].Payload) + 1)
	}
}
