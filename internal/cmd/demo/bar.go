package demo

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// bar shows progress: a bar on a terminal, one line at the end elsewhere.
type bar struct {
	w     io.Writer
	name  string
	begun time.Time
	n     int
	bar   *progressbar.ProgressBar // nil if w is no terminal
}

func newBar(w io.Writer, total int, name string) *bar {
	b := &bar{w: w, name: name, begun: time.Now()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		b.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("  "+name),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("points"),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(30))
	}
	return b
}

func (b *bar) add(n int) {
	b.n += n
	if b.bar != nil {
		_ = b.bar.Add(n) // a terminal that is gone does not end the demo
	}
}

func (b *bar) done() {
	if b.bar != nil {
		_ = b.bar.Finish()
		_, _ = fmt.Fprintln(b.w)
		return
	}
	took := time.Since(b.begun)
	_, _ = fmt.Fprintf(b.w, "  %s: %s points in %s (%s points/s)\n", b.name, humanize.Comma(int64(b.n)),
		took.Round(time.Millisecond), humanize.Comma(int64(float64(b.n)/took.Seconds())))
}

func bytesText(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
