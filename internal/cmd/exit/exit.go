// Package exit says with which code a command ends: 0 if it did what it was asked
// to, 1 if it failed, 2 if it was asked in a way that it does not understand.
package exit

import "github.com/pkg/errors"

// The codes.
const (
	OK      = 0
	Failure = 1
	Misuse  = 2
)

// usageError is an error of the person who typed the command.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks err as an error of usage. Nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// Code returns the code to exit with.
func Code(err error) int {
	if err == nil {
		return OK
	}
	var usage usageError
	if errors.As(err, &usage) {
		return Misuse
	}
	return Failure
}
