package server

import (
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
)

// A body reads the body of a request as it comes over the network: it extends the connection's read
// deadline while enough is coming, and remembers what went wrong, so that a connection that broke is
// told from a content that is broken.
type body struct {
	r     io.Reader
	conn  *http.ResponseController
	cfg   *Config
	start time.Time
	limit int64
	read  int64
	err   error
}

func (b *body) reset(w http.ResponseWriter, r *http.Request, cfg *Config, limit int64) {
	*b = body{r: r.Body, conn: http.NewResponseController(w), cfg: cfg, start: time.Now(), limit: limit}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	earned := time.Duration(float64(b.read) / float64(b.cfg.BodyMinRate) * float64(time.Second))
	deadline := b.start.Add(b.cfg.BodyTimeout + earned)
	if idle := time.Now().Add(b.cfg.BodyTimeout); idle.Before(deadline) {
		deadline = idle
	}
	_ = b.conn.SetReadDeadline(deadline) // Not every connection has one.
	n, err := b.r.Read(p)
	b.read += int64(n)
	if b.read > b.limit {
		err = errors.WithStack(lineprotocol.ErrTooLarge)
	}
	switch {
	case errors.Is(err, io.EOF):
		// The server reads on in the background, to notice when the client goes away.
		_ = b.conn.SetReadDeadline(time.Time{})
	case err != nil:
		b.err = err // The deadline stays: net/http reads what is left.
	}
	return n, err
}

// pause leaves the time since then out of the account of the client's speed: it was we who did not
// read.
func (b *body) pause(since time.Time) { b.start = b.start.Add(time.Since(since)) }

// problem says why reading from the network failed.
func (b *body) problem() *problem {
	p := problemf(http.StatusBadRequest, "the body ended too early, or its chunks are malformed: nothing was kept")
	switch {
	case errors.Is(b.err, lineprotocol.ErrTooLarge):
		p = problemf(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", b.limit)
	case errors.Is(b.err, os.ErrDeadlineExceeded):
		p = problemf(http.StatusRequestTimeout, "the body came too slowly: at most %s without data, and at least %d bytes per second",
			b.cfg.BodyTimeout, b.cfg.BodyMinRate)
	}
	p.hangUp = true
	return p
}

// encoding reports whether the body is compressed with gzip.
func encoding(r *http.Request) (zipped bool, p *problem) {
	switch enc := strings.TrimSpace(r.Header.Get("Content-Encoding")); {
	case enc == "" || strings.EqualFold(enc, "identity"):
		return false, nil
	case strings.EqualFold(enc, "gzip"):
		return true, nil
	default:
		return false, problemf(http.StatusBadRequest, "the content encoding %.20q is not known: use gzip or none", enc)
	}
}

// rawLimit is the limit for a body as it comes. What gzip adds to data that it cannot compress is
// less than this; a stream of empty members would have no end.
func (c *Config) rawLimit(zipped bool) int64 {
	if zipped {
		return c.MaxBodySize + c.MaxBodySize/64 + 4096
	}
	return c.MaxBodySize
}

// expected returns how much memory a body takes at first.
func (c *Config) expected(r *http.Request) int64 {
	const usual = 256 << 10
	if n := r.ContentLength; n >= 0 {
		return min(n+minLease, usual)
	}
	return minLease
}

// A workspace is what reading a body needs. Its buffers are used again.
type workspace struct {
	norm lineprotocol.Normalizer
	body body
	zip  gzip.Reader
}

// keepBytes is how much of the buffers of a request is kept for the next one.
const keepBytes = 2 << 20

// unzip returns a reader of what the body holds.
func (ws *workspace) unzip(zipped bool) (io.Reader, error) {
	if !zipped {
		return &ws.body, nil
	}
	if err := ws.zip.Reset(&ws.body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return &ws.zip, nil
}
