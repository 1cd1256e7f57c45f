package filter

import (
	"fmt"
	"unicode/utf8"
)

// Bounds of a configuration, so that the work per point is bounded too.
const (
	// MaxPatterns is how many patterns a list may have.
	MaxPatterns = 1000
	// MaxPatternBytes is how long a pattern may be.
	MaxPatternBytes = 1024
)

// Config says which points pass. The zero Config lets all pass. It is stored and sent as JSON.
type Config struct {
	// Measurements are globs.
	Measurements List `json:"measurements,omitzero"`
	// Tags are key=glob.
	Tags List `json:"tags,omitzero"`
}

// A List has patterns that let points pass, and patterns that keep them back.
type List struct {
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
}

// IsZero reports whether the list has no patterns.
func (l List) IsZero() bool { return len(l.Include)+len(l.Exclude) == 0 }

// IsZero reports whether all points pass.
func (c Config) IsZero() bool { return c.Measurements.IsZero() && c.Tags.IsZero() }

// Validate reports the first pattern that cannot work, as an *Error.
func (c Config) Validate() error {
	_, err := Compile(c)
	return err
}

// An Error says what is wrong with a configuration, and where.
type Error struct {
	// Field is where, as in the JSON document: tags.exclude[2].
	Field string
	// Pattern is what stands there, cut if it is long; empty if it is about the list.
	Pattern string
	// Reason is what is wrong, and what to write instead.
	Reason string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Pattern == "" {
		return fmt.Sprintf("filter: %s: %s", e.Field, e.Reason)
	}
	return fmt.Sprintf("filter: %s: %q: %s", e.Field, e.Pattern, e.Reason)
}

// each calls add for every pattern of a list, and adds to its error where it is.
func each(field string, patterns []string, add func(pattern string) error) error {
	if len(patterns) > MaxPatterns {
		return &Error{Field: field, Reason: fmt.Sprintf("%d patterns are too many; give at most %d", len(patterns), MaxPatterns)}
	}
	for i, p := range patterns {
		var reason string
		switch {
		case len(p) > MaxPatternBytes:
			reason = fmt.Sprintf("the pattern is longer than %d bytes", MaxPatternBytes)
		case !utf8.ValidString(p):
			reason = "the pattern is no UTF-8"
		default:
			if err := add(p); err != nil {
				reason = err.Error()
			}
		}
		if reason != "" {
			const shown = 80
			return &Error{Field: fmt.Sprintf("%s[%d]", field, i), Pattern: p[:min(len(p), shown)], Reason: reason}
		}
	}
	return nil
}
