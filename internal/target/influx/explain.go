package influx

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	stderrors "errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// retry returns an error that may heal.
func (t *Target) retry(after time.Duration, hint, format string, args ...any) *logical.Error {
	return &logical.Error{
		Err:   errors.Errorf("influx: %s: %s", t.cfg.URL, t.plain(fmt.Sprintf(format, args...))),
		Class: logical.ClassRetry, Hint: hint, RetryAfter: after,
	}
}

// noAnswer gives an error of the transport its class and a hint.
func (t *Target) noAnswer(ctx context.Context, err error) error {
	text, hint := explain(ctx, err)
	e := t.retry(0, hint, "%s", text)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	e.Err = &silence{e.Err, err}
	return e
}

// silence is the error of a request without an answer. It is said by err, and caused by something that
// says too much.
type silence struct{ err, cause error }

// Error implements error.
func (s *silence) Error() string { return s.err.Error() }

// Unwrap returns the cause.
func (s *silence) Unwrap() error { return s.cause }

// explain says what an error of the transport means, and what to do.
func explain(ctx context.Context, err error) (text, hint string) {
	if e, ok := stderrors.AsType[*url.Error](err); ok {
		err = e.Err // the URL is said already
	}
	text = err.Error()
	if cause := context.Cause(ctx); cause != nil {
		return "no answer: " + cause.Error(), "the remote or the network is slow; the request is made smaller"
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var header tls.RecordHeaderError
	var dns *net.DNSError
	switch {
	case errors.As(err, &unknown):
		return text, "give the certificate of its authority, or allow insecure TLS"
	case errors.As(err, &name), errors.As(err, &invalid):
		return text, "use the name that is in the remote's certificate, renew it, or allow insecure TLS"
	case errors.As(err, &header), strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return text, "the remote speaks http, not https"
	case errors.As(err, &dns):
		return text, "look at the name of the host, and at the network"
	case errors.Is(err, syscall.ECONNREFUSED):
		return text, "nothing listens there: start the remote, or look at the port"
	case errors.Is(err, errEndless):
		return text, "look at what is between here and the remote"
	}
	return text, "look at the network"
}
