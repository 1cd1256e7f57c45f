package influx

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pkg/errors"
)

const (
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 64 << 10
	// answerTime bounds how long the rest of an answer may take, once it has begun.
	answerTime = 5 * time.Second
)

// An answer is what a remote has said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// A request is one question to the remote.
type request struct {
	method string
	path   []string
	query  map[string]string
	kind   Kind
	body   *body // nil for none
}

var errEndless = errors.New("the answer began and did not end")

// exchange sends a request and reads the answer. Its errors are those of the transport.
func (t *Target) exchange(ctx context.Context, r request) (*answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, detach, err := t.build(ctx, r)
	if err != nil {
		return nil, err
	}
	defer detach()
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, err
	}
	// The rest of an answer comes soon, or never.
	timer := time.AfterFunc(answerTime, func() { cancel(errEndless) })
	defer timer.Stop()
	defer func() { _ = resp.Body.Close() }() // what is not read does not matter
	a := &answer{status: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, errors.Wrapf(err, "reading the answer (status %d)", a.status)
	}
	return a, nil
}

// build makes the HTTP request, and returns what makes sure that nobody reads its body any more.
func (t *Target) build(ctx context.Context, r request) (*http.Request, func(), error) {
	u := t.base.JoinPath(r.path...)
	query := u.Query()
	for name, value := range r.query {
		if value != "" {
			query.Set(name, value)
		}
	}
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	t.authorize(req, r.kind)
	req.Header.Set("User-Agent", "tailrace/"+t.cfg.Version)
	req.Header.Set("Accept", "application/json")
	if r.body == nil {
		return req, func() {}, nil
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	if r.body.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	var mu sync.Mutex
	var readers []*reader
	// The transport asks again when a connection that it kept turns out to be closed.
	req.GetBody = func() (io.ReadCloser, error) {
		mu.Lock()
		defer mu.Unlock()
		reader := r.body.reader()
		readers = append(readers, reader)
		return reader, nil
	}
	req.ContentLength = int64(r.body.length())
	if req.ContentLength == 0 {
		req.Body = http.NoBody
		return req, func() {}, nil
	}
	req.Body, _ = req.GetBody() // it never fails
	return req, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, reader := range readers {
			reader.detach()
		}
	}, nil
}

// authorize adds what the remote knows us by.
func (t *Target) authorize(req *http.Request, kind Kind) {
	switch {
	case t.cfg.Username != "":
		req.SetBasicAuth(t.cfg.Username, t.cfg.Password)
	case t.cfg.Token == "":
	case kind == V3:
		req.Header.Set("Authorization", "Bearer "+t.cfg.Token)
	default:
		req.Header.Set("Authorization", "Token "+t.cfg.Token)
	}
}

// write returns the request that writes to a remote of the kind.
func (t *Target) write(kind Kind, b *body) request {
	r := request{method: http.MethodPost, kind: kind, body: b}
	switch kind {
	case V1:
		db, rp := t.cfg.database()
		r.path, r.query = []string{"write"}, map[string]string{"db": db, "rp": rp, "precision": "ns"}
	case V3:
		db, _ := t.cfg.database()
		r.path = []string{"api", "v3", "write_lp"}
		r.query = map[string]string{"db": db, "precision": "nanosecond", "accept_partial": "true"}
	default:
		r.path = []string{"api", "v2", "write"}
		r.query = map[string]string{"org": t.cfg.Org, "bucket": t.cfg.Bucket, "precision": "ns"}
	}
	return r
}
