package queue

import (
	"github.com/google/uuid"
)

// ID names one queue for ever: it is made when the queue's directory is, and a
// directory that lost everything gets another one.
type ID = uuid.UUID

// Sequence numbers the blocks of one queue, from 1. A number is never used again
// in the same queue, and some numbers are never used at all.
type Sequence uint64

// Kind says what a payload is. The queue does not look into payloads.
type Kind uint16

// The kinds of payload that are known to the tools.
const (
	// KindOpaque is anything.
	KindOpaque Kind = 0
	// KindLineProtocol is InfluxDB line protocol, timestamps in nanoseconds.
	KindLineProtocol Kind = 1
)

// MaxPayload is the most that one block carries, before compression.
const MaxPayload = 1 << 20

// Block is one block as a reader delivers it.
type Block struct {
	// Sequence is the block's number. With the queue's ID it is the block's stamp.
	Sequence Sequence
	// Time is when the block was appended: nanoseconds since 1970 by the wall
	// clock, as it was then. If the clock is set back, so are the times of later
	// blocks: only sequences are in order.
	Time int64
	// Points is the number of points (rows, lines) in the payload, as the writer
	// gave it.
	Points int
	// Kind says what the payload is.
	Kind Kind
	// Group is the sequence of the group's last block, as it was written: the same
	// for all blocks of the group, so that its stamp is known from its first one.
	Group Sequence
	// Last marks the end of a group. Its sequence identifies the group. Where the
	// true last block was damaged, the last good one of its group bears the mark.
	Last bool
	// Payload is the content. See [Reader] for how long it stays.
	Payload []byte
}
