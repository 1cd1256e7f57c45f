// Package testca is a certificate authority for tests: it issues real certificates for this machine, good
// and bad ones.
package testca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An Authority issues certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// A Request is for a certificate of 127.0.0.1, ::1 and localhost.
type Request struct {
	// Name is the common name.
	Name string
	// NotBefore and NotAfter are by default an hour ago and in ninety days.
	NotBefore, NotAfter time.Time
}

// New returns a new authority.
func New(tb testing.TB) *Authority {
	tb.Helper()
	key := newKey(tb)
	template := &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(10 * 365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return &Authority{cert: sign(tb, template, template, key, key), key: key}
}

// Issue writes name.crt and name.key into dir, each replaced in one step, and returns their paths.
func (a *Authority) Issue(tb testing.TB, dir, name string, r Request) (cert, key string) {
	tb.Helper()
	if r.NotBefore.IsZero() {
		r.NotBefore = time.Now().Add(-time.Hour)
	}
	if r.NotAfter.IsZero() {
		r.NotAfter = time.Now().Add(90 * 24 * time.Hour)
	}
	own := newKey(tb)
	issued := sign(tb, &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: r.Name}, NotBefore: r.NotBefore, NotAfter: r.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}, a.cert, own, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		tb.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	write(tb, cert, "CERTIFICATE", issued.Raw)
	write(tb, key, "PRIVATE KEY", der)
	return cert, key
}

// File writes the authority's own certificate into dir and returns its path.
func (a *Authority) File(tb testing.TB, dir string) string {
	tb.Helper()
	path := filepath.Join(dir, "authority.crt")
	write(tb, path, "CERTIFICATE", a.cert.Raw)
	return path
}

// Pool returns the authority for a client to trust.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func serial(tb testing.TB) *big.Int {
	tb.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func sign(tb testing.TB, template, parent *x509.Certificate, own, by *ecdsa.PrivateKey) *x509.Certificate {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, own.Public(), by)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return cert
}

func write(tb testing.TB, path, kind string, der []byte) {
	tb.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		tb.Fatal(err)
	}
}
