package influx

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/pkg/errors"
)

const (
	dialTime = 10 * time.Second
	// idleTime is how long a connection is kept without a request: an idle stream holds no descriptor.
	idleTime = time.Minute
)

// newClient returns the client of one remote: it keeps connections alive, goes through the proxy of the
// environment, and never follows a redirect, which would turn a write into an empty GET.
func newClient(cfg Config) (*http.Client, error) {
	trusted := &tls.Config{InsecureSkipVerify: cfg.AllowInsecureTLS, MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, errors.Wrap(err, "influx: the file of trusted certificates")
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, errors.Errorf("influx: %s holds no certificate in PEM form", cfg.CAFile)
		}
		trusted.RootCAs = pool
	}
	dialer, proxy := &net.Dialer{Timeout: dialTime, KeepAlive: 15 * time.Second}, http.ProxyFromEnvironment
	dial := dialer.DialContext
	if cfg.Outbound != nil {
		dial, proxy = cfg.Outbound.DialContext(dialer), cfg.Outbound.Proxy(proxy)
	}
	return &http.Client{
		Transport: quiet{&http.Transport{
			Proxy:               proxy,
			DialContext:         dial,
			TLSClientConfig:     trusted,
			TLSHandshakeTimeout: dialTime,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 256, // as many as a fan has shards
			IdleConnTimeout:     idleTime,
			DisableCompression:  true,
			WriteBufferSize:     64 << 10,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// quiet is a transport that drops a Location that is malformed: the client would repeat it in an error, whatever
// secrets are in it, although it is not to go there.
type quiet struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (q quiet) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := q.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if _, err := url.Parse(resp.Header.Get("Location")); err != nil {
		resp.Header.Del("Location")
	}
	return resp, nil
}

// compresses reports whether bodies to the host are compressed.
func compresses(c Compression, host string) bool {
	switch c {
	case CompressGzip:
		return true
	case CompressNone:
		return false
	}
	ip := net.ParseIP(host)
	return !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback())
}
