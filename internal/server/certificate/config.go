package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"log/slog"
	"os"

	"github.com/pkg/errors"
)

// Config of a Keeper.
type Config struct {
	// Certificate is a PEM file: the server's certificate and then those of its intermediate authorities.
	Certificate string
	// PrivateKey is the PEM file of its key.
	PrivateKey string
	// ClientCA is a PEM file of the authorities whose certificates clients may show; needed for
	// ClientAuth Request and Require only.
	ClientCA string
	// ClientAuth says whether clients show a certificate. Default: Off.
	ClientAuth ClientAuth
	// Log takes the logs. Default: slog.Default().
	Log *slog.Logger
}

// ClientAuth says whether clients show a certificate.
type ClientAuth uint8

// The values.
const (
	// Off asks for none.
	Off ClientAuth = iota
	// Request verifies one that is shown, and takes clients without one.
	Request
	// Require takes no client without one.
	Require
)

// ParseClientAuth reads off, request or require.
func ParseClientAuth(s string) (ClientAuth, error) {
	switch s {
	case "off":
		return Off, nil
	case "request":
		return Request, nil
	case "require":
		return Require, nil
	}
	return Off, errors.Errorf("%q is unknown; give off, request or require", s)
}

func (a ClientAuth) tls() tls.ClientAuthType {
	switch a {
	case Request:
		return tls.VerifyClientCertIfGiven
	case Require:
		return tls.RequireAndVerifyClientCert
	}
	return tls.NoClientCert
}

func (c *Config) validate() error {
	switch {
	case c.Certificate == "" || c.PrivateKey == "":
		return errors.New("a certificate needs its private key, and the key its certificate: give both files")
	case c.ClientAuth != Off && c.ClientCA == "":
		return errors.New("to verify the certificates of clients, give the file of their authority")
	case c.ClientAuth == Off && c.ClientCA != "":
		return errors.New("an authority for clients is given, but they are not asked for a certificate: say whether to request or require one")
	}
	return nil
}

// files are those that a pair is made of.
func (c *Config) files() []string {
	files := []string{c.Certificate, c.PrivateKey}
	if c.ClientCA != "" {
		files = append(files, c.ClientCA)
	}
	return files
}

// A pair is what the files hold.
type pair struct {
	leaf *x509.Certificate
	tls  *tls.Config
	// info are the files as they were before they were read.
	info []fs.FileInfo
}

// stat returns the files as they are.
func (c *Config) stat() ([]fs.FileInfo, error) {
	var all []fs.FileInfo
	for _, name := range c.files() {
		info, err := os.Stat(name)
		if err != nil {
			return nil, errors.WithStack(err)
		}
		all = append(all, info)
	}
	return all, nil
}

// same reports whether the files have not changed.
func same(a, b []fs.FileInfo) bool {
	for i := range a {
		if !os.SameFile(a[i], b[i]) || !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Size() != b[i].Size() {
			return false
		}
	}
	return len(a) == len(b)
}

// read reads the files.
func (c *Config) read() (*pair, error) {
	info, err := c.stat()
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(c.Certificate, c.PrivateKey)
	if err != nil {
		return nil, errors.Wrapf(err, "%s and %s are no pair of certificate and private key", c.Certificate, c.PrivateKey)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"},
		ClientAuth: c.ClientAuth.tls(),
		// A session that is resumed would outlive a change of the authorities.
		SessionTicketsDisabled: c.ClientAuth != Off,
	}
	if c.ClientCA != "" {
		if config.ClientCAs, err = ReadPool(c.ClientCA); err != nil {
			return nil, err
		}
	}
	return &pair{leaf: cert.Leaf, tls: config, info: info}, nil
}

// ReadPool reads a PEM file of authorities.
func ReadPool(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.Errorf("%s holds no certificate in the form of PEM", path)
	}
	return pool, nil
}
