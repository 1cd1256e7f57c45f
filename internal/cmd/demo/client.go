package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
)

// client writes points as any client would, and keeps the books that the report is checked against:
// it knows of nothing but what was acknowledged.
type client struct {
	url   string
	token string

	mu       sync.Mutex
	accepted int
	keys     map[[16]byte]struct{} // of the distinct points
}

func newClient(address, bucket, token string) *client {
	u := url.URL{Scheme: "http", Host: address, Path: "/api/v2/write", RawQuery: url.Values{"bucket": {bucket}}.Encode()}
	return &client{url: u.String(), token: token, keys: map[[16]byte]struct{}{}}
}

// write sends points until they are acknowledged.
func (c *client) write(ctx context.Context, points []lineprotocol.Point) error {
	var body []byte
	var err error
	for i := range points {
		if body, err = lineprotocol.AppendPoint(body, &points[i]); err != nil {
			return err
		}
	}
	for {
		retry, err := c.post(ctx, body)
		if err == nil {
			c.book(points)
			return nil
		}
		if !retry {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// post sends a body once, and reports whether a failure may heal.
func (c *client) post(ctx context.Context, body []byte) (retry bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return false, errors.WithStack(err)
	}
	req.Header.Set("Authorization", "Token "+c.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ctx.Err() == nil, errors.WithStack(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return false, nil
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return true, errors.Errorf("%s: %s", resp.Status, text)
	}
	return false, errors.Errorf("the server refused a write: %s: %s", resp.Status, text)
}

// book counts acknowledged points.
func (c *client) book(points []lineprotocol.Point) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted += len(points)
	for i := range points {
		// Identity is measurement, tags and time. The generator always sends tags in one order.
		id := fmt.Appendf(nil, "%q%q%d", points[i].Measurement, points[i].Tags, points[i].Time)
		sum := sha256.Sum256(id)
		c.keys[[16]byte(sum[:16])] = struct{}{}
	}
}

// books returns how many points were acknowledged, and how many of them are distinct.
func (c *client) books() (accepted, distinct int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accepted, len(c.keys)
}
