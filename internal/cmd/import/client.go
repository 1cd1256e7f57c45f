package importcmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/util/retry"
	"github.com/tailrace-cdc/tailrace/logical"
)

// client writes to a bucket, and waits for a server that is busy or away.
type client struct {
	url, token string
	http       http.Client
	retry      *retry.Retry
	say        func(string) // tells the user why it takes longer
}

func newClient(o Options) (*client, error) {
	u, err := url.Parse(o.Host)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, exit.Usage(errors.Errorf("--host: %q is no URL of a server; write it like http://127.0.0.1:8086", o.Host))
	}
	secure, err := o.TLS.Config(o.Host)
	if err != nil {
		return nil, exit.Usage(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	u = u.JoinPath("/api/v2/write")
	u.RawQuery = url.Values{"bucket": {o.Bucket}, "precision": {"ns"}}.Encode()
	return &client{
		url: u.String(), token: o.Token,
		http: http.Client{
			Timeout:   time.Minute,
			Transport: transport,
			// A redirected POST would become an empty GET.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		retry: retry.New(retry.Config{Base: 200 * time.Millisecond, Max: 10 * time.Second}),
	}, nil
}

// write sends lines until they are acknowledged, refused for good, or ctx ends.
func (c *client) write(ctx context.Context, lines []byte) error {
	for {
		err := c.post(ctx, lines)
		if err == nil {
			c.retry.Reset()
			return nil
		}
		if logical.ClassOf(err) == logical.ClassReject || ctx.Err() != nil {
			return err
		}
		c.say("waiting: " + err.Error())
		if err := c.retry.Wait(ctx, err); err != nil {
			return err
		}
	}
}

func (c *client) post(ctx context.Context, lines []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(lines))
	if err != nil {
		return errors.WithStack(err)
	}
	req.Header.Set("Authorization", "Token "+c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		return connectError(err)
	}
	defer func() { _ = resp.Body.Close() }() // what was sent is answered by the status
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if resp.StatusCode == http.StatusNoContent {
		return nil
	}
	failure := &logical.Error{
		Err: errors.Errorf("the server answered %s: %s", resp.Status, strings.TrimSpace(string(text))),
	}
	switch {
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		failure.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	default:
		failure.Class = logical.ClassReject
	}
	return failure
}

// connectError tells a server that may come back from one that will never be trusted, or never trust us.
func connectError(err error) error {
	var untrusted *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	case errors.As(err, &untrusted):
		return &logical.Error{Class: logical.ClassReject, Err: errors.WithStack(err), Hint: "give the authority of the server's certificate as --tlsCA"}
	case errors.As(err, &alert):
		return &logical.Error{Class: logical.ClassReject, Err: errors.WithStack(err), Hint: "the server may want a certificate: --clientCertificate, --clientKey"}
	}
	return errors.WithStack(err)
}

// retryAfter reads the header of that name, which is a number of seconds or a date; 0 if it is neither.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
