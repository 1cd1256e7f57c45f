package apiclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/pkg/errors"
)

// Config says which server, and who asks.
type Config struct {
	// URL is the server's, Token what it knows us by.
	URL, Token string
	// TLS is how a server of https:// is trusted. Default: by the authorities of the system.
	TLS *tls.Config
}

// A Client asks one server. Its methods may be called concurrently.
type Client struct {
	url   *url.URL
	token string
	http  http.Client
}

// New returns a client. It asks nothing yet.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("this is no URL of a server; write it like http://127.0.0.1:8086")
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = c.TLS
	return &Client{url: u, token: c.Token, http: http.Client{
		Transport: transport,
		// Another server must not get the token, and a redirected POST would become an empty GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// URL returns the server's.
func (c *Client) URL() string { return c.url.String() }

// An Error is an answer that is no success.
type Error struct {
	Status int
	// Code is InfluxDB's word for it, and Message says more.
	Code, Message string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Message == "" {
		return "the server answered " + http.StatusText(e.Status)
	}
	return e.Message
}

// StatusOf returns the status of an answer, or 0 if there was none.
func StatusOf(err error) int {
	if e := new(Error); errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// A ConnectionError says that there was no answer.
type ConnectionError struct {
	URL string
	Err error
}

// Error names the server.
func (e *ConnectionError) Error() string {
	return "the server " + e.URL + " does not answer: " + e.Err.Error()
}

// Unwrap returns why.
func (e *ConnectionError) Unwrap() error { return e.Err }

// do sends a request, with a JSON body unless that is nil, and reads the answer into result, unless that is nil.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body, result any) error {
	resp, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return &ConnectionError{c.URL(), errors.WithStack(err)}
	}
	if result == nil || resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.Unmarshal(text, result); err != nil {
		return errors.Errorf("%s does not answer like Tailrace: %v", c.URL(), err)
	}
	return nil
}

// send sends a request, and turns an answer that is no success into an error.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	u := c.url.JoinPath(path)
	u.RawQuery = query.Encode()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, errors.WithStack(err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), content)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	req.Header.Set("Authorization", "Token "+c.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if wrapped := new(url.Error); errors.As(err, &wrapped) {
			err = wrapped.Err // it repeats the address
		}
		return nil, &ConnectionError{c.URL(), errors.WithStack(err)}
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }() // the status says enough
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	failure := &Error{Status: resp.StatusCode}
	var doc struct{ Code, Message, Error string }
	if json.Unmarshal(text, &doc) == nil {
		failure.Code, failure.Message = doc.Code, doc.Message+doc.Error
	} else {
		failure.Message = "the server answered " + resp.Status + ": " + strings.TrimSpace(string(text[:min(len(text), 200)]))
	}
	return nil, failure
}
