package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/internal/testenv/testca"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// A desk has an authority, a certificate in files, and who keeps it.
type desk struct {
	*Keeper
	ca  *testca.Authority
	dir string
	log *logBuffer
}

func newDesk(t *testing.T, r testca.Request) *desk {
	t.Helper()
	d := &desk{ca: testca.New(t), dir: t.TempDir(), log: &logBuffer{}}
	cert, key := d.ca.Issue(t, d.dir, "server", r)
	k, err := Open(Config{Certificate: cert, PrivateKey: key, Log: slog.New(slog.NewTextHandler(d.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	d.Keeper = k
	return d
}

// shown returns the name of the certificate that a handshake shows.
func (d *desk) shown(t *testing.T) string {
	t.Helper()
	client, server := net.Pipe()
	defer func() { _, _ = client.Close(), server.Close() }()
	var answered sync.WaitGroup
	answered.Go(func() { _ = tls.Server(server, d.TLS()).HandshakeContext(t.Context()) })
	defer answered.Wait()
	c := tls.Client(client, &tls.Config{RootCAs: d.ca.Pool(), ServerName: "localhost", Time: time.Now})
	if err := c.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestRenewedFilesAreTakenAtAHandshake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, testca.Request{Name: "old"})
		d.ca.Issue(t, d.dir, "server", testca.Request{Name: "new"})
		if got := d.shown(t); got != "old" {
			t.Errorf("within a second of the last look the files were read again: %s", got)
		}
		time.Sleep(lookEvery) // of the bubble's clock
		if got := d.shown(t); got != "new" || d.log.count("read again") != 1 {
			t.Errorf("%s is shown", got)
		}
	})
}

func TestWatchTakesRenewedFilesWithoutAHandshake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, testca.Request{Name: "old"})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go d.Watch(ctx)
		d.ca.Issue(t, d.dir, "server", testca.Request{Name: "new"})
		time.Sleep(2 * watchEvery)
		synctest.Wait()
		if got := d.Leaf().Subject.CommonName; got != "new" {
			t.Errorf("%s is in use", got)
		}
	})
}

// NOTHING SILENT: a broken pair keeps the old one, is said once, and is taken as soon as it is whole.
func TestBrokenPairKeepsTheOldOneAndSaysSo(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, d *desk){
		"half a certificate": func(t *testing.T, d *desk) { cut(t, filepath.Join(d.dir, "server.crt")) },
		"empty key":          func(t *testing.T, d *desk) { overwrite(t, filepath.Join(d.dir, "server.key"), nil) },
		"missing": func(t *testing.T, d *desk) {
			if err := os.Remove(filepath.Join(d.dir, "server.key")); err != nil {
				t.Fatal(err)
			}
		},
		"another certificate's key": func(t *testing.T, d *desk) {
			other := t.TempDir()
			_, key := d.ca.Issue(t, other, "server", testca.Request{})
			text, err := os.ReadFile(key)
			if err != nil {
				t.Fatal(err)
			}
			overwrite(t, filepath.Join(d.dir, "server.key"), text)
		},
		"expired": func(t *testing.T, d *desk) {
			d.ca.Issue(t, d.dir, "server", testca.Request{Name: "new", NotAfter: time.Now().Add(-time.Minute)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, testca.Request{Name: "old"})
				spoil(t, d)
				for range 5 {
					time.Sleep(lookEvery)
					if got := d.shown(t); got != "old" {
						t.Fatalf("%s is shown", got)
					}
				}
				if n := d.log.count("cannot be used"); n != 1 {
					t.Errorf("said %d times", n)
				}
				if err := d.Reload(); err == nil {
					t.Error("Reload says nothing")
				}
				d.ca.Issue(t, d.dir, "server", testca.Request{Name: "new"})
				time.Sleep(lookEvery)
				if got := d.shown(t); got != "new" {
					t.Errorf("%s is shown after the repair", got)
				}
			})
		})
	}
}

func overwrite(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func cut(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()/2); err != nil {
		t.Fatal(err)
	}
}

func TestExpiryIsWarnedOfDaysBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, testca.Request{NotAfter: time.Now().Add(90 * day)})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go d.Watch(ctx)
		after := func(wait time.Duration, soon, expired int) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if s, e := d.log.count("expires soon"), d.log.count("has expired"); s != soon || e != expired {
				t.Errorf("warned %d times and %d times that it has expired, want %d and %d", s, e, soon, expired)
			}
		}
		after(75*day, 0, 0)
		after(day+2*time.Minute, 1, 0)
		after(day, 2, 0)
		after(13*day, 14, 1)
		after(2*day, 14, 3)
		d.ca.Issue(t, d.dir, "server", testca.Request{})
		after(10*day, 14, 3)
	})
}

func TestWhatIsSaidOfACertificate(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		life, left time.Duration
		says       string
	}{
		{365 * day, 15 * day, ""},
		{365 * day, 13 * day, "soon"},
		{day, 5 * time.Hour, ""},
		{day, 3 * time.Hour, "soon"},
		{day, 0, "expired"},
		{day, -time.Hour, "expired"},
		{day, 25 * time.Hour, "not valid yet"},
	} {
		_, text := verdict(now.Add(c.left-c.life), now.Add(c.left), now)
		if c.says == "" && text != "" || !strings.Contains(text, c.says) {
			t.Errorf("%s left of %s: %q", c.left, c.life, text)
		}
	}
}

func TestConfigurationThatCannotWork(t *testing.T) {
	t.Parallel()
	ca, dir := testca.New(t), t.TempDir()
	cert, key := ca.Issue(t, dir, "server", testca.Request{})
	authority := ca.File(t, dir)
	for name, c := range map[string]Config{
		"no key":            {Certificate: cert},
		"no certificate":    {PrivateKey: key},
		"no such file":      {Certificate: cert, PrivateKey: key + "x"},
		"the wrong file":    {Certificate: key, PrivateKey: cert},
		"no authority":      {Certificate: cert, PrivateKey: key, ClientAuth: Require},
		"unused authority":  {Certificate: cert, PrivateKey: key, ClientCA: authority},
		"authority is none": {Certificate: cert, PrivateKey: key, ClientCA: key, ClientAuth: Request},
	} {
		if _, err := Open(c); err == nil {
			t.Errorf("%s: it opens", name)
		}
	}
	for _, mode := range []os.FileMode{0o600, 0o644} {
		log := &logBuffer{}
		if err := os.Chmod(key, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Config{Certificate: cert, PrivateKey: key, Log: slog.New(slog.NewTextHandler(log, nil))}); err != nil {
			t.Fatal(err)
		}
		if warned := log.count("may read the private key") > 0; warned != readableByAll(mode) {
			t.Errorf("mode %s: warned %v", mode, warned)
		}
	}
}
