package logical

import (
	"fmt"
	"testing"
	"time"
)

func TestRepeatedMessagesAreSaidNowAndThen(t *testing.T) {
	t.Parallel()
	var r repeated
	now := time.Unix(0, 0)
	said := 0
	for i := range 1000 { // a hundred seconds
		for _, text := range []string{fmt.Sprintf("127.0.0.1:%d: refused", i), "timeout"} {
			if _, say := r.repeats(text, 1, now); say {
				said++
			}
		}
		now = now.Add(100 * time.Millisecond)
	}
	if said != 8 {
		t.Errorf("two messages were said %d times in 100 s, want 8", said)
	}
	if n := r.reset(); n != 2000 {
		t.Errorf("%d were counted, want 2000", n)
	}
	for i := range 10_000 {
		r.repeats(fmt.Sprintf("%c%c", 'a'+i%26, 'a'+i/26%26), 1, now)
	}
	if len(r.said) > maxRepeated {
		t.Errorf("%d messages are remembered", len(r.said))
	}
}
