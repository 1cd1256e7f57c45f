package certificate

import (
	"context"
	"crypto/x509"
	"io/fs"
	"log/slog"
	"runtime"
	"time"
)

const day = 24 * time.Hour

// An expiryLog warns of a certificate that will expire, once a day.
type expiryLog struct {
	log  *slog.Logger
	said string // what was said last, and about which certificate
	at   time.Time
}

// look logs what is to be said about the certificate now.
func (e *expiryLog) look(leaf *x509.Certificate, now time.Time) {
	level, text := verdict(leaf.NotBefore, leaf.NotAfter, now)
	if text == "" {
		e.said = ""
		return
	}
	key := leaf.SerialNumber.String() + text
	if key == e.said && now.Sub(e.at) < day {
		return
	}
	e.said, e.at = key, now
	e.log.Log(context.Background(), level, text, "expires", leaf.NotAfter.UTC(), "in", leaf.NotAfter.Sub(now).Round(time.Minute).String(),
		"names", leaf.DNSNames)
}

// verdict returns what is to be said about a certificate, if anything. It is warned of two weeks before it
// expires; one that lives for less than three months, when a sixth of its life is left, since those are
// renewed by a program that does so earlier.
func verdict(notBefore, notAfter, now time.Time) (slog.Level, string) {
	switch left := notAfter.Sub(now); {
	case left <= 0:
		return slog.LevelError, "the TLS certificate has expired: clients refuse it; renew it, and it is taken without a restart"
	case now.Before(notBefore):
		return slog.LevelWarn, "the TLS certificate is not valid yet; is the clock right?"
	case left < min(14*day, notAfter.Sub(notBefore)/6):
		return slog.LevelWarn, "the TLS certificate expires soon; renew it, and it is taken without a restart"
	}
	return slog.LevelInfo, ""
}

// readableByAll reports whether the mode lets everybody read. It means nothing on Windows.
func readableByAll(mode fs.FileMode) bool { return runtime.GOOS != "windows" && mode.Perm()&0o004 != 0 }
