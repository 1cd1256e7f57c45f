package metadata

import (
	"encoding/json"
	"sync"
	"testing"
	"time"
)

func TestIDsGrowAndAreUnique(t *testing.T) {
	t.Parallel()
	for name, now := range map[string]func() time.Time{
		"the clock":           time.Now,
		"a clock that stands": func() time.Time { return time.UnixMilli(1700000000000) },
		"a clock before 2017": func() time.Time { return time.Unix(0, 0) },
	} {
		g := newIDs(now)
		var mu sync.Mutex
		seen := map[ID]bool{}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				var last ID
				for range 5000 {
					id := g.next()
					if id <= last {
						t.Errorf("%s: %v after %v", name, id, last)
					}
					last = id
					mu.Lock()
					if seen[id] {
						t.Errorf("%s: %v twice", name, id)
					}
					seen[id] = true
					mu.Unlock()
				}
			})
		}
		all.Wait()
	}
}

func TestIDTexts(t *testing.T) {
	t.Parallel()
	id := newIDs(time.Now).next()
	text, err := json.Marshal(id)
	var back ID
	if err != nil || len(text) != 18 || json.Unmarshal(text, &back) != nil || back != id {
		t.Errorf("%v became %s and %v, %v", id, text, back, err)
	}
	for _, bad := range []string{"", "0", "0000000000000000", "000000000000000g", "00000000000000A1", "00000000000000001", "-000000000000001", "0x00000000000001"} {
		if id, err := ParseID(bad); err == nil {
			t.Errorf("%q is %v", bad, id)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("0a1b2c3d4e5f6789")
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := ParseID(text); err == nil && id.String() != text {
			t.Errorf("%q is read as %v", text, id)
		}
	})
}
