package start

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/server/certificate"
)

// ProvideCertificate reads the server's certificate; the result is nil if it has none.
func ProvideCertificate(config Config, log *slog.Logger, reg *prometheus.Registry) (*certificate.Keeper, error) {
	var keeper *certificate.Keeper
	if config.TLSCertificate != "" || config.TLSPrivateKey != "" {
		auth, err := certificate.ParseClientAuth(config.TLSClientAuth)
		if err != nil {
			return nil, err
		}
		keeper, err = certificate.Open(certificate.Config{
			Certificate: config.TLSCertificate, PrivateKey: config.TLSPrivateKey,
			ClientCA: config.TLSClientCA, ClientAuth: auth, Log: log,
		})
		if err != nil {
			return nil, exit.Usage(errors.WithMessage(err, "--tlsCertificate, --tlsPrivateKey, --tlsClientCA"))
		}
	}
	err := reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "tailrace", Name: "tls_certificate_expires_seconds",
		Help: "When the certificate in use expires, in seconds since the Unix epoch; 0 without TLS.",
	}, func() float64 {
		if keeper == nil {
			return 0
		}
		return float64(keeper.Leaf().NotAfter.Unix())
	}))
	return keeper, err
}

// tlsOf returns the configuration of a listener; nil is HTTP.
func tlsOf(keeper *certificate.Keeper) *tls.Config {
	if keeper == nil {
		return nil
	}
	return keeper.TLS()
}

// watchCertificate takes a renewed certificate, and does so at once at a SIGHUP, which then does not end the
// process, until ctx ends.
func (s *Server) watchCertificate(ctx context.Context) {
	hangup := make(chan os.Signal, 1)
	signal.Ignore(syscall.SIGHUP) // It ended the process until now.
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	var watch sync.WaitGroup
	watch.Go(func() { s.certificate.Watch(ctx) })
	defer watch.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			_ = s.certificate.Reload() // logged there
		}
	}
}

// url returns the server's URL, by a name that its certificate has.
func (s *Server) url() string {
	if s.certificate == nil {
		return "http://" + s.Addr().String()
	}
	leaf, address := s.certificate.Leaf(), s.Addr().String()
	host, port, err := net.SplitHostPort(address)
	if err == nil && leaf.VerifyHostname(host) != nil {
		for _, name := range leaf.DNSNames {
			if !strings.HasPrefix(name, "*") {
				return "https://" + net.JoinHostPort(name, port)
			}
		}
	}
	return "https://" + address
}

// curlOptions returns what curl needs to trust the server, and to be trusted.
func (s *Server) curlOptions() string {
	if s.certificate == nil {
		return ""
	}
	options := ""
	if leaf := s.certificate.Leaf(); bytes.Equal(leaf.RawIssuer, leaf.RawSubject) {
		options += " --cacert " + quoteShell(s.config.TLSCertificate)
	}
	if s.config.TLSClientAuth == "require" {
		options += " --cert CLIENT.crt --key CLIENT.key"
	}
	return options
}
