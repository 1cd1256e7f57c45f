package metadata

import (
	"fmt"
	"strings"
)

// Kind is a kind of thing that is stored, in the words of messages.
type Kind string

// The kinds.
const (
	KindOrg    Kind = "organization"
	KindBucket Kind = "bucket"
	KindRemote Kind = "remote connection"
	KindStream Kind = "replication"
	KindToken  Kind = "authorization"
)

// A NotFoundError says that there is nothing of that id or name.
type NotFoundError struct {
	Kind Kind
	Ref  string // an id or a name
}

// Error implements error.
func (e *NotFoundError) Error() string { return fmt.Sprintf("%s not found: %q", e.Kind, e.Ref) }

// A ConflictError says that the name is taken.
type ConflictError struct {
	Kind Kind
	Name string
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s with name %q already exists; give another name", e.Kind, e.Name)
}

// An InUseError says that something cannot be deleted, and who uses it.
type InUseError struct {
	Kind Kind
	Name string
	// By are the names of those that use it, each with its kind.
	By []string
}

// Error implements error.
func (e *InUseError) Error() string {
	return fmt.Sprintf("%s %q is used by %s; delete what uses it first", e.Kind, e.Name, strings.Join(e.By, ", "))
}

// An InvalidError says which field cannot be stored, and why.
type InvalidError struct {
	Field  string // by its name in the API
	Reason string
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }
