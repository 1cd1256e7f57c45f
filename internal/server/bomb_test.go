package server

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
)

// A bomb of gzip is refused for what it becomes, at the cost of what it may become at most.
func TestBombOfGzip(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	st := start(t, Config{MaxBodySize: limit, BodyMemory: 8 * limit}, nil)
	for name, bomb := range map[string]string{
		"blanks":         zipped(strings.Repeat(" ", 16<<20)),
		"comments":       zipped(strings.Repeat("#\n", 8<<20)),
		"one line":       zipped("m v=\"" + strings.Repeat("x", 16<<20)),
		"gzip in gzip":   zipped(zipped(strings.Repeat("m v=1 1\n", 4<<20))),
		"empty members":  string(bytes.Repeat([]byte(zipped("")), 100_000)),
		"points of many": strings.Repeat(zipped(strings.Repeat("m v=1 1\n", 8<<10)), 100),
	} {
		if name != "gzip in gzip" && name != "empty members" && len(bomb) > limit {
			t.Fatalf("%s has %d bytes: it is not small", name, len(bomb))
		}
		got := st.do(t, http.MethodPost, v2one, bomb, map[string]string{"Content-Encoding": "gzip"})
		if got.status != http.StatusRequestEntityTooLarge && (name != "gzip in gzip" || got.status != http.StatusBadRequest) {
			t.Errorf("%s: answer %d %.200s", name, got.status, got.body)
		}
	}
	if st.intake.all() != "" || st.budget.used() != 0 {
		t.Errorf("%d bytes are kept, %d reserved", len(st.intake.all()), st.budget.used())
	}
}
