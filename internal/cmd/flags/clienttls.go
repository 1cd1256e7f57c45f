package flags

import (
	"crypto/tls"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/tailrace-cdc/tailrace/internal/server/certificate"
)

// ClientTLS is how a command that talks to a server trusts it, and shows who it is.
type ClientTLS struct {
	// CA is a PEM file of the authorities that are trusted; empty for those of the system.
	CA string
	// Certificate and Key are PEM files, for a server that asks for a certificate.
	Certificate, Key string
}

// Bind defines the flags.
func (c *ClientTLS) Bind(set *pflag.FlagSet) {
	set.StringVar(&c.CA, "tlsCA", "", "trust a server of https:// whose certificate is by the authorities in this file (PEM); by default those of the system")
	set.StringVar(&c.Certificate, "clientCertificate", "", "the certificate to show to a server that asks for one (PEM)")
	set.StringVar(&c.Key, "clientKey", "", "the private key of --clientCertificate (PEM)")
}

// Config reads the files. The host is the URL of the server; the flags mean nothing without https.
func (c *ClientTLS) Config(host string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if *c == (ClientTLS{}) {
		return config, nil
	}
	if !strings.HasPrefix(strings.ToLower(host), "https://") {
		return nil, errors.Errorf("--tlsCA, --clientCertificate and --clientKey are for a server of https://, not for %s", host)
	}
	if c.CA != "" {
		pool, err := certificate.ReadPool(c.CA)
		if err != nil {
			return nil, errors.WithMessage(err, "--tlsCA")
		}
		config.RootCAs = pool
	}
	if (c.Certificate == "") != (c.Key == "") {
		return nil, errors.New("--clientCertificate and --clientKey go together")
	}
	if c.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(c.Certificate, c.Key)
		if err != nil {
			return nil, errors.Wrap(err, "--clientCertificate, --clientKey")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
