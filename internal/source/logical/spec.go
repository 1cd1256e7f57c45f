package logical

import (
	"context"
	"reflect"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// Spec says what a loop is to do.
type Spec struct {
	// Name is the loop's name in this process: in logs and metrics.
	Name string
	// Identity is the loop's identity in its target; see logical.Claim. Default: Name.
	Identity string
	// Dialect reads the source. A dialect serves one loop.
	Dialect logical.Dialect
	// Open makes the dialect, in place of Dialect: once, however many callers want the loop at the same
	// time, within the context of the one of them who came first. A dialect that it made and that is an
	// io.Closer is closed when the loop has ended.
	Open func(ctx context.Context) (logical.Dialect, error)
	// Source is what Open makes the dialect of, such as a struct of settings. Two specs that have Open are
	// the same if their Sources are equal.
	Source any
	// Target takes the data. Default: the factory's.
	Target logical.Target
	// Config is how the loop behaves. The zero Config stands for the factory's.
	Config logical.Config
}

// settings are what makes one specification equal to another.
type settings struct {
	name, identity string
	dialect        logical.Dialect
	opens          bool
	source         any
	target         logical.Target
	config         logical.Config
}

// settle fills in what the factory provides, and reports what cannot work.
func (f *Factory) settle(spec Spec) (settings, error) {
	if spec.Name == "" {
		return settings{}, errors.New("logical: a loop needs a name")
	}
	s := settings{
		name: spec.Name, identity: spec.Identity, dialect: spec.Dialect,
		opens: spec.Open != nil, source: spec.Source, target: spec.Target, config: spec.Config,
	}
	if s.identity == "" {
		s.identity = s.name
	}
	if s.target == nil {
		s.target = f.config.Target
	}
	if s.config == (logical.Config{}) {
		s.config = f.config.Config
	}
	if err := s.config.Validate(); err != nil {
		return s, errors.WithMessagef(err, "loop %s", s.name)
	}
	switch {
	case s.opens == (s.dialect != nil):
		return s, errors.Errorf("loop %s: give either a Dialect or Open", s.name)
	case s.target == nil:
		return s, errors.Errorf("loop %s: it has no target, and the factory has none either", s.name)
	}
	for _, v := range []any{s.dialect, s.source, s.target} {
		if v != nil && !reflect.ValueOf(v).Comparable() {
			return s, errors.Errorf("loop %s: a %T cannot be compared; give a pointer to it", s.name, v)
		}
	}
	return s, nil
}

// claim is what two loops must not have in common.
type claim struct {
	identity string
	target   logical.Target
}

func (s settings) claim() claim { return claim{s.identity, s.target} }
