package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
)

const (
	// lookEvery is how often handshakes look at the files at most.
	lookEvery = time.Second
	// watchEvery is how often Watch looks at the files and the calendar.
	watchEvery = time.Minute
	// sayEvery is how often the same trouble is logged.
	sayEvery = time.Hour
)

// A Keeper keeps a certificate. Its methods may be called concurrently.
type Keeper struct {
	config  Config
	current atomic.Pointer[pair]
	looked  atomic.Int64 // when a handshake looked last, in nanoseconds

	mu     sync.Mutex // held while files are read
	failed string     // why the files cannot be used; empty if they can
	said   time.Time  // when that was logged
	expiry expiryLog
}

// Open reads the files. A certificate that has expired is an error in the log, but not here: the clock may
// be wrong, as it is on small machines that have just booted.
func Open(config Config) (*Keeper, error) {
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if err := config.validate(); err != nil {
		return nil, err
	}
	p, err := config.read()
	if err != nil {
		return nil, err
	}
	k := &Keeper{config: config, expiry: expiryLog{log: config.Log}}
	k.current.Store(p)
	k.looked.Store(time.Now().UnixNano())
	k.warnOfReaders(p)
	k.expiry.look(p.leaf, time.Now())
	return k, nil
}

// TLS returns a configuration for a server whose certificate is the current one at each handshake.
func (k *Keeper) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now, last := time.Now().UnixNano(), k.looked.Load()
			if now-last >= int64(lookEvery) && k.looked.CompareAndSwap(last, now) {
				_ = k.renew(false) // logged there; the old pair is in use
			}
			return k.current.Load().tls, nil
		},
	}
}

// Leaf returns the certificate that is in use.
func (k *Keeper) Leaf() *x509.Certificate { return k.current.Load().leaf }

// Reload reads the files now, whether or not they seem to have changed. On an error, which is logged too,
// the old pair stays in use.
func (k *Keeper) Reload() error { return k.renew(true) }

// Watch looks at the files once a minute, and warns before the certificate expires, until ctx ends.
func (k *Keeper) Watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = k.renew(false) // logged there
			k.mu.Lock()
			k.expiry.look(k.Leaf(), time.Now())
			k.mu.Unlock()
		}
	}
}

// renew takes the files into use if they have changed, or always. After a failure they are read again each
// time: what is half written may keep its size and its time.
func (k *Keeper) renew(always bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.current.Load()
	if !always && k.failed == "" {
		if info, err := k.config.stat(); err == nil && same(info, old.info) {
			return nil
		}
	}
	p, err := k.config.read()
	if err == nil {
		if now := time.Now(); now.After(p.leaf.NotAfter) && now.Before(old.leaf.NotAfter) {
			err = errors.Errorf("the certificate in %s expired at %s", k.config.Certificate, p.leaf.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	if err != nil {
		k.fail(err, old)
		return err
	}
	k.failed = ""
	k.current.Store(p)
	k.warnOfReaders(p)
	k.config.Log.Info("the TLS certificate was read again; new connections use it",
		"file", k.config.Certificate, "serial", p.leaf.SerialNumber.Text(16), "expires", p.leaf.NotAfter.UTC())
	k.expiry.look(p.leaf, time.Now())
	return nil
}

// fail logs why the files cannot be used, once, and then every hour.
func (k *Keeper) fail(err error, old *pair) {
	now := time.Now()
	if k.failed == err.Error() && now.Sub(k.said) < sayEvery {
		return
	}
	k.failed, k.said = err.Error(), now
	k.config.Log.Error("the TLS certificate on disk cannot be used; the one read before stays in use",
		"error", err, "expires", old.leaf.NotAfter.UTC())
}

// warnOfReaders warns if everybody may read the key.
func (k *Keeper) warnOfReaders(p *pair) {
	if mode := p.info[1].Mode(); readableByAll(mode) {
		k.config.Log.Warn("everybody on this machine may read the private key; run chmod o-rwx on it", "file", k.config.PrivateKey, "mode", mode.String())
	}
}
