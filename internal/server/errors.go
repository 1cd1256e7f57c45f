package server

import (
	"fmt"
	"strings"
	"time"
)

// An UnknownBucketError says that there is no such bucket: 404.
type UnknownBucketError struct{ Ref string }

// Error implements error.
func (e *UnknownBucketError) Error() string { return fmt.Sprintf("bucket %q not found", e.Ref) }

// An UnknownOrgError says that there is no such organisation: 404.
type UnknownOrgError struct{ Ref string }

// Error implements error.
func (e *UnknownOrgError) Error() string { return fmt.Sprintf("organization %q not found", e.Ref) }

// A QueueFullError says that a stream's queue has no room, and that nothing was kept anywhere: 503
// with Retry-After.
type QueueFullError struct {
	// Stream names the stream whose queue is full.
	Stream string
	// RetryAfter is when there may be room; 0 means Config.RetryAfter.
	RetryAfter time.Duration
}

// Error implements error.
func (e *QueueFullError) Error() string {
	return fmt.Sprintf("the queue of stream %q is full: nothing of this write was kept; write it again later, "+
		"give the stream a larger queue, or repair its remote", e.Stream)
}

// An UnavailableError says that writes cannot be taken now, and that nothing was kept: 503 with
// Retry-After. A server that is stopping and a disk whose reserve is used up are examples.
type UnavailableError struct {
	Reason     string
	RetryAfter time.Duration
}

// Error implements error.
func (e *UnavailableError) Error() string { return e.Reason }

// A TooLargeError says that a write can never be kept, however often it is sent: 413.
type TooLargeError struct{ Reason string }

// Error implements error.
func (e *TooLargeError) Error() string { return e.Reason }

// A StoreError says that writing to some of a bucket's queues failed: 500. Writing it again is
// harmless, because points are identified by series and time.
type StoreError struct {
	// Kept are the streams that have the write, Failed those that have not.
	Kept, Failed []string
	// Err is what went wrong.
	Err error
}

// Error implements error.
func (e *StoreError) Error() string {
	kept := "no stream kept it"
	if len(e.Kept) > 0 {
		kept = "kept by " + strings.Join(e.Kept, ", ")
	}
	return fmt.Sprintf("stream %s could not make the write durable (%s; writing it again is harmless): %v",
		strings.Join(e.Failed, ", "), kept, e.Err)
}

// Unwrap returns what went wrong.
func (e *StoreError) Unwrap() error { return e.Err }
