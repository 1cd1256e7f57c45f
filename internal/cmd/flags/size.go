package flags

import (
	"math"

	"github.com/dustin/go-humanize"
	"github.com/pkg/errors"
)

// Size is a number of bytes as a flag: 1048576, 1MiB, 25 MB.
type Size int64

// String implements pflag.Value.
func (s *Size) String() string { return humanize.IBytes(uint64(max(*s, 0))) }

// Set implements pflag.Value.
func (s *Size) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return errors.Errorf("%q is no size; write it like 10MiB", text)
	}
	*s = Size(n)
	return nil
}

// Type implements pflag.Value.
func (s *Size) Type() string { return "size" }
