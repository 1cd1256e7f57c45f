package logical

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/oracle"
	"github.com/tailrace-cdc/tailrace/internal/oracle/history"
	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// poisoned has half of the simulations reject some mutations, which are set aside.
func (s *sim) poisoned(rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		return
	}
	every := int64(5 + rng.IntN(60))
	rest := rng.Int64N(every)
	s.poison = func(number int64) bool { return number%every == rest }
	s.config.OnReject = logical.RejectDeadLetter
	s.judge.Refuses(func(c *oracle.Change) bool { return !c.Points && c.Op != oracle.Truncate && s.poison(c.Number) })
}

// reject is what the target refuses: by the number of a mutation, or of the last of those that were merged into it.
func (s *sim) reject(m *logical.Mutation) error {
	if s.poison == nil || s.mended.Load() || m.Relation.Points || m.Op == logical.OpTruncate || !s.poison(history.Number(m)) {
		return nil
	}
	return errors.Errorf("number %d is poison", history.Number(m))
}

// restored is a tape that finds the mutations of letters by their places.
type restored struct{ *tape }

// Replay implements logical.Replayer.
func (d restored) Replay(letter logical.DeadLetter) (logical.Mutation, error) {
	var stamp at
	if err := json.Unmarshal(letter.Stamp, &stamp); err != nil {
		return logical.Mutation{}, err
	}
	return d.txs[stamp.N-1][letter.Position], nil
}

// placesOf returns the places of letters, and checks that what they say was there.
func (s *sim) placesOf(letters []logical.DeadLetter) (places []oracle.Place, err error) {
	for i := range letters {
		l := &letters[i]
		var stamp at
		if err := json.Unmarshal(l.Stamp, &stamp); err != nil {
			return nil, err
		}
		if stamp.N < 1 || stamp.N > len(s.txs) || l.Position >= len(s.txs[stamp.N-1]) {
			return nil, errors.Errorf("NOTHING SILENT: no mutation is at %s, position %d", l.Stamp, l.Position)
		}
		m := &s.txs[stamp.N-1][l.Position]
		if l.Op != m.Op || l.Table != m.Relation.String() || string(l.Key) != string(m.AppendKey(nil)) {
			return nil, errors.Errorf("NOTHING SILENT: a %s of %s was set aside, at its place is %s", l.Op, l.Table, fmt.Sprint(history.Changes([]logical.Mutation{*m})))
		}
		places = append(places, oracle.Place{Tx: stamp.N, Position: l.Position})
	}
	return places, nil
}

// fanned judges a target transaction of fan mode. What is set aside of a row comes after what is applied of it.
func (s *sim) fanned(changes []oracle.Change, aside []oracle.Place) error {
	if len(changes) > 0 {
		if err := s.judge.Fanned(changes); err != nil {
			return err
		}
	}
	return s.judge.SetAside(aside)
}

func (s *sim) replayed(c memory.Commit) error {
	for i := range c.Mutations {
		if err := s.judge.Replayed(history.Number(&c.Mutations[i])); err != nil {
			return err
		}
	}
	return nil
}

// replay mends the target and replays all letters, beside a loop that goes on, is cut short and restarted as ever.
func (s *sim) replay() error {
	if s.poison == nil {
		return nil
	}
	s.mended.Store(true)
	for step := 0; s.judge.Aside() > 0; step++ {
		if step > 100_000 {
			return errors.Errorf("%d letters are left: %+v", s.judge.Aside(), s.loop.Status())
		}
		if s.loop.Status().State != StateRunning {
			if err := s.pass(); err != nil {
				return err
			}
			continue
		}
		list, err := s.target.ListDeadLetters(context.Background(), "loop", 0, 100_000)
		if err != nil {
			return err
		}
		var ids []int64
		if len(list) != s.judge.Aside() {
			return errors.Errorf("NOTHING SILENT: %d letters are kept, %d changes were set aside", len(list), s.judge.Aside())
		}
		some := s.rng.IntN(2) == 0 // those that come after one that is not chosen have to wait
		for _, l := range list {
			if !some || s.rng.IntN(4) > 0 {
				ids = append(ids, l.ID)
			}
		}
		s.say("replay ", len(ids))
		done := make(chan struct{})
		loop := s.loop
		go func() {
			defer close(done)
			_, _ = loop.Replay(context.Background(), ids) // what could not be is replayed next time
		}()
		if err := s.settle(); err != nil {
			return err
		}
		for going := true; going; {
			if err := s.pass(); err != nil {
				return err
			}
			select {
			case <-done:
				going = false
			default:
			}
		}
	}
	return nil
}

// pass lets one thing happen, and what comes of it.
func (s *sim) pass() error {
	if err := s.step(); err != nil {
		return err
	}
	return s.settle()
}
