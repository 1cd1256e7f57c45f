package logical

import (
	"errors"
	"time"
)

// Class says what may be done about an error. It travels with the error, however it is wrapped.
type Class uint8

// The classes. An error without a class is ClassRetry: what is not known to be hopeless may heal.
const (
	// ClassRetry: try again, for as long as it takes (connection, authentication, permission, a
	// missing table, a full disk, a timeout).
	ClassRetry Class = iota
	// ClassConflict: the transaction lost against another one (serialization failure, deadlock);
	// the same transaction may be tried again at once.
	ClassConflict
	// ClassConstraint: a constraint other than the key's was violated, which may come of the order
	// in which shards progress. In fan mode it is tried again, in the end after a drain; in serial
	// mode it is ClassReject.
	ClassConstraint
	// ClassReject: the target will never accept the mutation.
	ClassReject
	// ClassFenced: the loop's epoch belongs to somebody else.
	ClassFenced
	// ClassUnknownCommit: a commit was sent and its outcome is not known.
	ClassUnknownCommit
)

var classNames = [...]string{"retry", "conflict", "constraint", "reject", "fenced", "unknown commit"}

// String returns the class's name in lower case, as metrics show it.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "class"
}

// Error gives an error its class, and what an operator should know.
type Error struct {
	// Err is what happened. Its text holds no secret.
	Err error
	// Class says what may be done about it.
	Class Class
	// Hint says what an operator should do, as a sentence; may be empty.
	Hint string
	// RetryAfter is how long the target asked to be left alone; 0 if it did not.
	RetryAfter time.Duration
	// Rejected are the mutations that the target will never accept, where [Tx.Apply] can tell them:
	// ascending indexes into the slice that it was given. An empty list with ClassReject means that
	// the caller has to find them. There may be more than those that are listed.
	Rejected []int
}

// Error returns the message of Err, with the hint behind it.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + " (" + e.Hint + ")"
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class that travels with err, the outermost one if there are several.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return ClassRetry
}

// HintOf returns the hint that travels with err, or "".
func HintOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Hint
	}
	return ""
}

// RejectedOf returns the indexes of the mutations that were refused, as far as the target could tell.
func RejectedOf(err error) []int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Rejected
	}
	return nil
}

// RetryAfterOf returns how long the target asked to be left alone, or 0.
func RetryAfterOf(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}
