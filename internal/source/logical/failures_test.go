package logical

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// TestNothingSilentTimeoutsNameTheirBound: in each mode a call of the target that does not come back is told with the
// setting that ended it, and with what can be done.
func TestNothingSilentTimeoutsNameTheirBound(t *testing.T) {
	t.Parallel()
	for _, site := range []memory.Site{memory.SitePrepare, memory.SiteBegin, memory.SiteApply, memory.SiteCommit, memory.SiteSaveMemo} {
		bothModes(t, func(t *testing.T, config logical.Config) {
			if site == memory.SiteSaveMemo && !config.Immediate {
				return // it has no such call
			}
			target := memory.Open(memory.Config{Hook: func(_ string, at memory.Site, _ uint64) memory.Fault {
				if at == site {
					return memory.Fault{Stall: time.Hour}
				}
				return memory.Fault{}
			}})
			factory := quietFactory(t, FactoryConfig{Target: target})
			loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: newReplayable(false, "1 a"), Config: config})
			if err != nil {
				t.Fatal(err)
			}
			until(loop, 10*time.Minute, func(s Status) bool { return s.Err != nil })
			s := loop.Status()
			if s.Err == nil || !strings.Contains(s.Err.Error(), "--applyTimeout (30s)") || !strings.Contains(logical.HintOf(s.Err), "--applyTimeout") {
				t.Errorf("%s stalls, and what is said is %q, with the hint %q", site, s.Err, logical.HintOf(s.Err))
			}
			loop.cancel(errStopped)
			loop.Stop(t.Context())
		})
	}
}

// TestNothingSilentOnlyWhatStopsALoopIsRejecting: a constraint that is violated for a moment, because one shard is ahead
// of another, is no trouble, and neither is a mutation that is set aside; one that stops the loop is.
func TestNothingSilentOnlyWhatStopsALoopIsRejecting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy logical.RejectPolicy
		write  string
		stops  bool
	}{
		{logical.RejectStop, "1 good", false},
		{logical.RejectDeadLetter, "1 poison", false},
		{logical.RejectDiscard, "1 poison", false},
		{logical.RejectStop, "1 poison", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			target := memory.Open(memory.Config{Reject: isPoison, Hook: func(_ string, at memory.Site, n uint64) memory.Fault {
				if at == memory.SiteApply && n <= 2 {
					return memory.Fault{Err: &logical.Error{Err: errors.New("another row has this value"), Class: logical.ClassConstraint}}
				}
				return memory.Fault{}
			}})
			var said bytes.Buffer
			factory, err := NewFactory(FactoryConfig{Holder: "one", Target: target, Log: slog.New(slog.NewTextHandler(&said, nil))})
			if err != nil {
				t.Fatal(err)
			}
			loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: newReplayable(false, c.write), Config: logical.Config{Immediate: true, OnReject: c.policy}})
			if err != nil {
				t.Fatal(err)
			}
			until(loop, time.Hour, func(s Status) bool {
				return s.Point != nil && s.Point.(at).N == 1 || c.stops && s.State == StateRejecting
			})
			s := loop.Status()
			if stopped := s.State == StateRejecting && s.Err != nil; stopped != c.stops || !c.stops && (s.State != StateRunning || s.Err != nil) {
				t.Errorf("%s, %s: it is %s at %v, with error %v", c.policy, c.write, s.State, s.Point, s.Err)
			}
			loop.cancel(errStopped)
			loop.Stop(t.Context())
			if loud := strings.Contains(said.String(), "cannot apply"); loud != c.stops {
				t.Errorf("%s, %s: it said\n%s", c.policy, c.write, said.String())
			}
			factory.Close(t.Context())
		})
	}
}
