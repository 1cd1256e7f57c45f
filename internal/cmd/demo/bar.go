package demo

import (
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// bar shows progress: a bar on a terminal, nothing but the end elsewhere.
type bar struct{ *progressbar.ProgressBar }

func newBar(w io.Writer, total int, name string) bar {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(name),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("points"),
		progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionSetWidth(30),
	}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		options = append(options, progressbar.OptionThrottle(time.Hour))
	}
	return bar{progressbar.NewOptions(total, options...)}
}

func (b bar) add(n int) { _ = b.Add(n) } // a terminal that is gone does not end the demo

func (b bar) done() {
	_ = b.Finish()
	_, _ = io.WriteString(os.Stderr, "\n")
}

func bytesText(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
