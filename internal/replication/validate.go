package replication

import (
	"context"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/remote"
	"github.com/tailrace-cdc/tailrace/logical"
)

// validateWithin bounds how long a remote may take to answer when it is tried.
const validateWithin = 15 * time.Second

// A Checker is a target that can be tried without a trace. It needs no more rights than writing does.
type Checker interface {
	Check(ctx context.Context) error
}

// Validate tries whether a stream could write to its remote. It writes no point.
func (s *Service) Validate(ctx context.Context, st metadata.Stream) error {
	r, err := s.checkStream(ctx, st)
	if err != nil {
		return err
	}
	connection, err := s.connection(st, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, validateWithin)
	defer cancel()
	target, err := s.config.Open(ctx, connection)
	if err != nil {
		return err
	}
	err = try(ctx, target, s.config.Installation+"/validate-"+s.store.NewStreamID().String(), s.config.Installation)
	if closed := target.Close(); err == nil {
		err = closed
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errors.Errorf("the remote did not answer within %s: %v", validateWithin, err)
	}
	return err
}

// try uses a target as a loop would that never gets anything to do.
func try(ctx context.Context, target logical.Target, loop, holder string) error {
	if checker, ok := target.(Checker); ok {
		return checker.Check(ctx)
	}
	claim := logical.Claim{Loop: loop, Holder: holder, TTL: time.Minute}
	session, err := target.Take(ctx, claim)
	if err != nil {
		return err
	}
	if err := session.Release(ctx); err != nil {
		return err
	}
	if forgetter, ok := target.(logical.Forgetter); ok {
		return forgetter.Forget(ctx, claim, false)
	}
	return nil
}

// NeedsBucket reports whether a stream to this remote has to say which bucket there it goes to.
func (s *Service) NeedsBucket(r metadata.Remote) bool {
	a, _, err := remote.Parse(r.URL)
	return err == nil && a.Kind == remote.Influx
}
