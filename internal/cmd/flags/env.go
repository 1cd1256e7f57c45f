package flags

import (
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"
)

// EnvName returns the environment variable of a flag.
func EnvName(flag string) string {
	var b strings.Builder
	b.WriteString("TAILRACE_")
	for i, r := range flag {
		if i > 0 && unicode.IsUpper(r) && !unicode.IsUpper(rune(flag[i-1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

// Document adds to each flag's usage the environment variable that it can be given by. The flags
// named in except, and help, have none.
func Document(set *pflag.FlagSet, except ...string) {
	set.VisitAll(func(f *pflag.Flag) {
		if !skips(f.Name, except) {
			f.Usage += fmt.Sprintf(" [%s]", EnvName(f.Name))
		}
	})
}

// FromEnv sets the flags that were not given on the command line from the environment.
func FromEnv(set *pflag.FlagSet, except ...string) error {
	var err error
	set.VisitAll(func(f *pflag.Flag) {
		value, ok := os.LookupEnv(EnvName(f.Name))
		if err != nil || !ok || f.Changed || skips(f.Name, except) {
			return
		}
		if bad := set.Set(f.Name, value); bad != nil {
			err = errors.Errorf("environment variable %s: %q is no value for --%s: %v", EnvName(f.Name), value, f.Name, bad)
		}
	})
	return err
}

func skips(name string, except []string) bool {
	if name == "help" {
		return true
	}
	for _, e := range except {
		if e == name {
			return true
		}
	}
	return false
}
