package influx

import (
	"context"
	stderrors "errors"
	"io"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// post makes one request of the lines, and returns what the answer means. An error says that there was
// none, or that none was asked for.
func (t *Target) post(ctx context.Context, muts []logical.Mutation) (verdict, error) {
	if t.isClosed() {
		return verdict{}, errClosed()
	}
	if err := t.calm.broken(t.facts.now()); err != nil {
		return verdict{}, err
	}
	kind, err := t.kindOf(ctx)
	if err != nil {
		return verdict{}, err
	}
	b, err := newBody(muts, t.gzip)
	defer b.free()
	if err != nil {
		return verdict{}, errors.Wrap(err, "influx: compressing a request")
	}
	t.facts.begin()
	begun := time.Now()
	a, err := t.exchange(ctx, t.write(kind, b))
	took := time.Since(begun)
	t.facts.end(took)
	if err != nil {
		if smaller(ctx, err, b.size) {
			t.sizer.tooSlow(b.size)
		}
		err = t.noAnswer(ctx, err)
		t.failed(0, err)
		return verdict{}, err
	}
	return t.settle(ctx, kind, a, b, took), nil
}

// largeRequest is one that somebody in between may cut off for its size, without the word for it (413)
// getting through.
const largeRequest = 64 << 10

// smaller reports whether a request without an answer is better made smaller.
func smaller(ctx context.Context, err error, size int) bool {
	if stderrors.Is(ctx.Err(), context.DeadlineExceeded) {
		return true
	}
	cut := stderrors.Is(err, syscall.ECONNRESET) || stderrors.Is(err, syscall.EPIPE) || stderrors.Is(err, io.EOF) || stderrors.Is(err, io.ErrUnexpectedEOF)
	return cut && ctx.Err() == nil && size > largeRequest
}

// settle notes what an answer means.
func (t *Target) settle(ctx context.Context, kind Kind, a *answer, b *body, took time.Duration) verdict {
	known := t.knows(a)
	if !known && a.status/100 == 2 && a.status != 204 && !looksLikeHTML(a) {
		// What it is was never asked, because the API was given.
		if _, err := t.probe(ctx); err == nil {
			known = t.knows(a)
		}
	}
	v := t.judge(kind, a, known)
	if v.misrouted {
		t.peer.forget()
	}
	switch v.outcome {
	case accepted:
		t.sizer.stored(b.size, took)
		t.facts.stored(a.status, len(b.muts), b.length())
	case tooLarge:
		t.sizer.tooLarge(b.size, v.maxLength)
		t.failed(a.status, v.err)
	case rejected:
		t.failed(a.status, v.err)
	case unsettled:
		t.listen(v)
		t.failed(a.status, v.err)
	}
	return v
}

// failed notes a failure; status is 0 where there was no answer.
func (t *Target) failed(status int, err error) {
	t.facts.failed(status, err)
	t.cfg.Logger.Debug("the remote did not accept a request", "remote", t.cfg.URL, "status", status, "error", err.Error())
}

// rejectedError is the error of lines that the remote will never accept.
func (t *Target) rejectedError(reason error) error {
	return errors.WithMessagef(reason, "influx: %s: it rejects lines", t.cfg.URL)
}
