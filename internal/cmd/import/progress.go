package importcmd

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far an import is: a bar on a terminal, a line every five seconds elsewhere. It is
// an io.Writer of what was read of the files.
type progress struct {
	w     io.Writer
	total int64
	begun time.Time

	mu   sync.Mutex
	bar  *progressbar.ProgressBar // nil if w is no terminal
	read int64
	n    int
	said time.Time
}

const sayEvery = 5 * time.Second

func newProgress(w io.Writer, total int64) *progress {
	now := time.Now()
	p := &progress{w: w, total: total, begun: now, said: now}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if total == 0 {
			total = -1 // a spinner
		}
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(w), progressbar.OptionShowBytes(true), progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetPredictTime(true))
	}
	return p
}

// Write counts what was read.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read += int64(len(b))
	if p.bar != nil {
		_ = p.bar.Add(len(b)) // a terminal that is gone does not end the import
	}
	return len(b), nil
}

// points counts what was acknowledged.
func (p *progress) points(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n += n
	rate := float64(p.n) / time.Since(p.begun).Seconds()
	switch {
	case p.bar != nil:
		p.bar.Describe(fmt.Sprintf("%s points/s", humanize.Comma(int64(rate))))
	case time.Since(p.said) >= sayEvery:
		p.said = time.Now()
		_, _ = fmt.Fprintf(p.w, "%s of %s, %d points, %.0f points/s\n",
			humanize.IBytes(uint64(p.read)), p.totalText(), p.n, rate)
	}
}

func (p *progress) totalText() string {
	if p.total == 0 {
		return "?"
	}
	return humanize.IBytes(uint64(p.total))
}

// say tells why it takes longer, at most every five seconds.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.said) < sayEvery && p.said != p.begun {
		return
	}
	p.said = time.Now()
	_, _ = fmt.Fprintln(p.w, text)
}

func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
		_, _ = fmt.Fprintln(p.w)
	}
}
