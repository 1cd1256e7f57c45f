package mode

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// epoch is where the clock of the scenarios starts.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A script drives one controller by commands.
type script struct {
	c      *Controller
	manual bool // switches are carried out by the command "settled" only
}

func (s *script) run(command string) string {
	word := strings.Fields(command)
	switch word[0] {
	case "loop": // loop window=10m dwell=10s [immediate] [manual]
		arg := args(word[1:])
		s.c = NewController(policy(arg))
		s.manual = arg.has("manual")
		return s.c.Mode().String()
	case "policy":
		s.c.SetPolicy(policy(args(word[1:])))
		return ""
	case "at": // at 1m30s stale=5m | unknown | none
		now := epoch.Add(duration(word[1]))
		d := s.c.Observe(now, staleness(word[2]))
		if d.Switched && !s.manual {
			s.c.Settled(now)
		}
		return describe(d)
	case "settled":
		s.c.Settled(epoch.Add(duration(word[1])))
		return ""
	case "swing":
		return s.swing(args(word[1:]))
	case "feed":
		return s.feed(args(word[1:]))
	}
	panic("unknown command " + command)
}

func describe(d Decision) string {
	out := fmt.Sprintf("%s, %s", d.Mode, d.Reason)
	if d.Switched {
		out = "switch to " + out
	}
	if d.Warn {
		out += ", WARN: serial cannot keep up"
	} else if d.SerialTooSlow {
		out += ", serial cannot keep up"
	}
	return out
}

// swing lets the staleness go up and down between two values, and tells the switches.
func (s *script) swing(arg arguments) string {
	low, high := arg.duration("low"), arg.duration("high")
	period, length := arg.duration("period"), arg.duration("for")
	r := recorder{script: s}
	for t := time.Duration(0); t <= length; t += time.Second {
		phase := float64(t%period) / float64(period) // a triangle
		if phase = 2 * phase; phase > 1 {
			phase = 2 - phase
		}
		r.observe(t, By(low+time.Duration(phase*float64(high-low))))
	}
	return r.report()
}

// feed simulates a source and a target by their rates, in transactions per second, and tells the
// switches. The target stands still during "stall"; the loop starts "backlog" behind.
func (s *script) feed(arg arguments) string {
	in, serial, fan := arg.number("in"), arg.number("serial"), arg.number("fan")
	stallAt, stallEnd := arg.duration("stall"), arg.duration("stall")+arg.duration("stalled")
	r := recorder{script: s}
	waiting := arg.duration("backlog").Seconds() * in
	for t := time.Duration(0); t <= arg.duration("for"); t += time.Second {
		rate := serial
		if s.c.Mode().Fan() {
			rate = fan
		}
		if t >= stallAt && t < stallEnd {
			rate = 0
		}
		waiting = max(0, waiting+in-rate)
		r.observe(t, By(time.Duration(waiting/in*float64(time.Second))))
	}
	return r.report()
}

// A recorder collects what happens during a simulation.
type recorder struct {
	script   *script
	lines    []string
	switches int
}

func (r *recorder) observe(t time.Duration, st Staleness) {
	now := epoch.Add(t)
	d := r.script.c.Observe(now, st)
	if d.Switched {
		r.switches++
		r.script.c.Settled(now)
	}
	if d.Switched || d.Warn {
		by, _ := st.Known()
		r.lines = append(r.lines, fmt.Sprintf("%s: stale by %s, %s", t, by.Round(time.Second), describe(d)))
	}
}

func (r *recorder) report() string {
	const shown = 12
	lines := r.lines
	if more := len(lines) - shown; more > 0 {
		lines = append(lines[:shown:shown], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(append(lines, fmt.Sprintf("%d switches", r.switches)), "\n")
}

type arguments map[string]string

func args(words []string) arguments {
	a := arguments{}
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		a[name] = value
	}
	return a
}

func (a arguments) has(name string) bool { _, ok := a[name]; return ok }

func (a arguments) duration(name string) time.Duration {
	if !a.has(name) {
		return 0
	}
	return duration(a[name])
}

func (a arguments) number(name string) float64 {
	f, err := strconv.ParseFloat(a[name], 64)
	if err != nil {
		panic(err)
	}
	return f
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

func policy(a arguments) Policy {
	return Policy{Window: a.duration("window"), MinDwell: a.duration("dwell"), Immediate: a.has("immediate")}
}

func staleness(word string) Staleness {
	switch a := args([]string{word}); {
	case a.has("stale"):
		return By(a.duration("stale"))
	case a.has("none"):
		return Since(epoch, time.Time{})
	case a.has("unknown"):
		return Unknown()
	}
	panic("unknown staleness " + word)
}

func TestModesHaveStableNames(t *testing.T) {
	t.Parallel()
	for i, want := range []string{"serial", "backfill", "immediate"} {
		if got := All()[i].String(); got != want {
			t.Errorf("mode %d is called %q, want %q", i, got, want)
		}
	}
}

// TestCalmBoundsSwitches lets the staleness jump at random, which no real feed can: the dwell holds
// all the same, and an observation at which nothing is known never switches.
func TestCalmBoundsSwitches(t *testing.T) {
	t.Parallel()
	c := NewController(Policy{Window: 10 * time.Minute, MinDwell: 10 * time.Second})
	var last time.Duration
	rng, switches := rand.New(rand.NewPCG(1, 0)), 0
	for at := time.Duration(0); at < time.Hour; at += time.Second {
		st := By(time.Duration(rng.Int64N(int64(20 * time.Minute))))
		if rng.IntN(16) == 0 {
			st = Unknown()
		}
		d := c.Observe(epoch.Add(at), st)
		if !d.Switched {
			continue
		}
		if _, known := st.Known(); !known {
			t.Fatalf("%s: switched on an unknown staleness", at)
		}
		if switches++; switches > 1 && at-last < 10*time.Second {
			t.Fatalf("%s: switched %s after the switch before", at, at-last)
		}
		last = at
		c.Settled(epoch.Add(at))
	}
	if switches == 0 || switches > 361 {
		t.Errorf("%d switches within an hour", switches)
	}
}
