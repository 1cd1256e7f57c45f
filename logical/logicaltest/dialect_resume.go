package logicaltest

import (
	"errors"
)

// resumes: after any stamp that was sent, read back from its JSON, comes exactly what followed it.
func (r *reading) resumes() {
	want := r.whole()
	for i := range want[:len(want)-1] {
		d, end := r.open()
		from, err := d.DecodeStamp(want[i].stored)
		if err != nil {
			r.Fatalf("the stored stamp %s cannot be read back: %v", want[i].stored, err)
		}
		p := r.play(d, from)
		p.until(len(want) - i - 1)
		p.same(want[i+1:])
		end()
		if r.Failed() {
			return
		}
	}
}

// rollbacks ends ReadInto after each of its messages in turn, has Process roll back, and reads on from what
// was committed: the same transactions come as without.
func (r *reading) rollbacks() {
	want := r.whole()
	cuts := Count(40, 10_000)
	for cut := 1; ; cut++ {
		if cut > cuts/2 {
			cut += cut / 4
		}
		d, end := r.open()
		p := r.play(d, d.ZeroStamp())
		p.cut = cut
		p.until(len(want))
		p.same(want)
		end()
		if r.Failed() {
			r.Logf("after ReadInto was ended at its message %d", cut)
			return
		}
		if p.cut > 0 || p.rollbacks == 0 {
			return // it has fewer messages than that
		}
	}
}

// eventErrors: Process returns what an event returned.
func (r *reading) eventErrors() {
	for _, event := range []string{"begin", "data", "commit", "rollback"} {
		d, end := r.open()
		p := r.play(d, d.ZeroStamp())
		mine := errors.New("the target says no")
		p.fail = func(at string) error {
			if at == event {
				return mine
			}
			return nil
		}
		if event == "rollback" {
			p.cut = 1
		}
		p.returns(mine, event)
		end()
	}
}
