package logicaltest

import (
	"bytes"
	"encoding/json"

	"github.com/tailrace-cdc/tailrace/logical"
)

// stamps: totally ordered, and the same after they were stored.
func (r *reading) stamps() {
	txs := r.whole()
	d, _ := r.open()
	all := []logical.Stamp{d.ZeroStamp()}
	for _, x := range txs {
		all = append(all, x.stamp)
	}
	again := make([]logical.Stamp, len(all))
	for i, s := range all {
		stored, err := json.Marshal(s)
		if err != nil {
			r.Fatalf("the stamp %v cannot be stored: %v", s, err)
		}
		var spaced bytes.Buffer // a database may give the JSON back in another form
		if err := json.Indent(&spaced, stored, "", " "); err != nil {
			r.Fatalf("a stamp is stored as %s: %v", stored, err)
		}
		if again[i], err = d.DecodeStamp(spaced.Bytes()); err != nil {
			r.Fatalf("the stored stamp %s cannot be read back: %v", stored, err)
		}
		r.sameDetails(s, again[i], stored)
		// A loop decodes what is stored whenever it wonders whether something has landed.
		if twice, err := d.DecodeStamp(stored); err != nil || twice.Compare(again[i]) != 0 {
			r.Errorf("the stored stamp %s was read as %v, and once more as %v (%v)", stored, again[i], twice, err)
		}
	}
	sign := func(n int) int { return min(1, max(-1, n)) }
	for i := range all {
		for j := range all {
			want := sign(i - j)
			for _, got := range []int{all[i].Compare(all[j]), again[i].Compare(all[j]), all[i].Compare(again[j]), again[i].Compare(again[j])} {
				if sign(got) != want {
					r.Errorf("stamp %d compared with stamp %d gives %d, want %d (0 is the zero stamp, the others are %s … )", i, j, got, want, txs[0].stored)
					return
				}
			}
		}
	}
}

// sameDetails compares what a stamp knows beside its place.
func (r *reading) sameDetails(s, again logical.Stamp, stored []byte) {
	if timed, ok := s.(logical.TimeStamp); ok {
		if back, ok := again.(logical.TimeStamp); !ok || !back.Time().Equal(timed.Time()) {
			r.Errorf("the stamp %s had the time %v, and was read back as %v", stored, timed.Time(), again)
		}
	}
	if numbered, ok := s.(logical.OffsetStamp); ok {
		if back, ok := again.(logical.OffsetStamp); !ok || back.Offset() != numbered.Offset() {
			r.Errorf("the stamp %s had the offset %d, and was read back as %v", stored, numbered.Offset(), again)
		}
	}
}

// rubbish in the memo is told, and no position.
func (r *reading) rubbish() {
	d, _ := r.open()
	for _, stored := range []string{``, `{`, `"no stamp of this source"`, `[[]]`} {
		if s, err := d.DecodeStamp([]byte(stored)); err == nil {
			r.Errorf("the stored stamp %q was read as %v", stored, s)
		}
	}
}
