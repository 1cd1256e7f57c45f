package api

import (
	"encoding/json"
	"time"

	"github.com/pkg/errors"
)

// An optional is a field of a body that may be absent, null or have a value.
type optional[T any] struct {
	Set   bool
	Value *T // nil is null
}

// UnmarshalJSON implements json.Unmarshaler. It is called for null too, and not for what is absent.
func (o *optional[T]) UnmarshalJSON(text []byte) error {
	o.Set = true
	return json.Unmarshal(text, &o.Value)
}

// give sets a field that null resets.
func (o optional[T]) give(field **T) {
	if o.Set {
		*field = o.Value
	}
}

// giveValue sets a field that cannot be reset: null leaves it.
func (o optional[T]) giveValue(field *T) {
	if o.Value != nil {
		*field = *o.Value
	}
}

// duration is a time span, as 10m or 1h30m, in JSON.
type duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return errors.Errorf("%q is no duration; write it like 10m or 90s", text)
	}
	*d = duration(parsed)
	return nil
}
