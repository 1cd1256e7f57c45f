package queue

import "fmt"

// Reason says why blocks were lost.
type Reason string

// The reasons. Each is counted apart.
const (
	// LostCorrupt blocks were damaged on disk.
	LostCorrupt Reason = "corrupt"
	// LostTorn bytes were cut off the end of the newest segment at opening. With
	// SyncAlways they had not been acknowledged to anyone.
	LostTorn Reason = "torn"
	// LostOldest blocks made room under the policy DropOldest.
	LostOldest Reason = "dropOldest"
	// LostNewest groups were not taken under the policy DropNewest, while another
	// queue kept them. They have no sequences.
	LostNewest Reason = "dropNewest"
	// LostAge blocks grew older than Limits.MaxAge.
	LostAge Reason = "age"
	// LostPurge blocks were purged by hand.
	LostPurge Reason = "purge"
	// LostUnsynced blocks were answered, but not yet durable when a sync failed,
	// and could not be read back. Never with SyncAlways.
	LostUnsynced Reason = "unsynced"
)

// Loss declares something lost.
type Loss struct {
	Reason Reason `json:"reason"`
	// First and Last are the range of sequences, both included; zero if the lost
	// had none. Where Blocks is zero they only say which the lost can have had.
	First Sequence `json:"first,omitempty"`
	Last  Sequence `json:"last,omitempty"`
	// Blocks is how many blocks were lost. It is exact, since the sequences of a
	// range have no gaps, but for a torn end, of which nobody can know it: there it
	// is zero.
	Blocks uint64 `json:"blocks"`
	// Points is how many points were lost at least: those of blocks whose header is
	// damaged are not known, and not in it.
	Points int64 `json:"points"`
	// Bytes is how many bytes on disk this was, as far as is known.
	Bytes int64 `json:"bytes"`
	// Exact says that Points is exact, and not only a lower bound.
	Exact bool `json:"exact"`
	// Time is when the loss was noticed, in nanoseconds since 1970.
	Time int64 `json:"time"`
	// Oldest and Newest are the enqueue times of the lost, zero if unknown.
	Oldest int64 `json:"oldest,omitempty"`
	Newest int64 `json:"newest,omitempty"`
}

// String says it in a line.
func (x Loss) String() string {
	switch {
	case x.Blocks == 0:
		return fmt.Sprintf("up to %d bytes behind sequence %d, count unknown (%s)", x.Bytes, x.First-1, x.Reason)
	case x.First == 0:
		return fmt.Sprintf("%d blocks, %d points (%s)", x.Blocks, x.Points, x.Reason)
	}
	about := ""
	if !x.Exact {
		about = " at least"
	}
	return fmt.Sprintf("sequences %d to %d, %d blocks, %d points%s (%s)", x.First, x.Last, x.Blocks, x.Points, about, x.Reason)
}
