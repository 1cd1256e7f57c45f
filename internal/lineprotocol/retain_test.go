package lineprotocol

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

// TestBoundedByWhatIsHeld keeps one mutation of each of many blocks, as a shard does whose target refuses it:
// it holds on to little more than its size, whatever its block had beside it.
func TestBoundedByWhatIsHeld(t *testing.T) {
	for _, raw := range []bool{false, true} {
		for name, other := range map[string]string{
			"long lines":  "m,host=h s=\"" + strings.Repeat("x", 10_000) + "\" 1\n",
			"escapes":     "m,host=h s=\"" + strings.Repeat("x\\\"", 200) + "\" 1\n",
			"short lines": "m,host=h a=1i,b=2i,c=\"text\" 1\n",
		} {
			const blocks = 100
			d := NewDecoder(DecoderConfig{RawOnly: raw})
			held := make([]logical.Mutation, 0, blocks)
			size := int64(0)
			before := heapInUse()
			var muts []logical.Mutation
			for i := range blocks {
				payload := []byte(fmt.Sprintf("stuck v=1i,s=\"a\",e=\"\\\"\" %d\n", i) + strings.Repeat(other, 500_000/len(other)))
				var err error
				first := true
				for rest := payload; len(rest) > 0; first = false {
					if muts, rest, err = d.Decode(muts[:0], rest, 100); err != nil {
						t.Fatal(err)
					}
					if first {
						held = append(held, muts[0])
						size += int64(muts[0].Size())
					}
				}
			}
			clear(muts[:cap(muts)])
			if got, most := heapInUse()-before, size+blocks<<11+1<<20; got > most {
				t.Errorf("BOUNDED: %s, raw %t: %d mutations of %d bytes hold %d bytes", name, raw, blocks, size, got)
			}
			runtime.KeepAlive(held)
			runtime.KeepAlive(muts)
			runtime.KeepAlive(d)
		}
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
