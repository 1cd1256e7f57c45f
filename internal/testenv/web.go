package testenv

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pkg/errors"
)

// lookUp finds a server's binary, or ends the test.
func lookUp(t testing.TB, binary, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(binary)
	if err == nil {
		return path
	}
	if testing.Short() {
		t.Skipf("%s is not installed (Debian package %s)", name, pkg)
	}
	t.Fatalf("%s is not installed; install the Debian package %s, or run with -short", name, pkg)
	return ""
}

func webRoot(t testing.TB, name string) string {
	t.Helper()
	root, err := os.MkdirTemp("", "tailrace-"+name+"-")
	if err == nil {
		err = handOver(root)
	}
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return root
}

// A webServer is a server that speaks HTTP.
type webServer struct {
	name    string
	root    string // removed at the end
	ready   string // the path that answers when it is
	command func(port int) (bin string, args []string, err error)
	port    int
	proc    *process
}

// launch starts the server until the end of the test.
func (s *webServer) launch(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		s.Kill()
		_ = os.RemoveAll(s.root)
	})
	var err error
	for range 8 { // a port may be taken meanwhile
		if s.port, err = freePort(); err == nil {
			if err = s.start(); err == nil {
				return
			}
		}
	}
	t.Fatalf("testenv: %v", err)
}

func (s *webServer) start() error {
	bin, args, err := s.command(s.port)
	if err != nil {
		return err
	}
	if s.proc, err = startProcess(bin, args, s.root, filepath.Join(s.root, "log")); err != nil {
		return err
	}
	if err := s.awaitReady(); err != nil {
		s.Kill()
		log, _ := os.ReadFile(filepath.Join(s.root, "log"))
		return errors.Errorf("%s does not start: %v\n%s", s.name, err, tail(string(log), 20))
	}
	return nil
}

func (s *webServer) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		resp, err := client.Get(s.URL() + s.ready)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode/100 == 2 {
				return nil
			}
			err = errors.Errorf("status %d", resp.StatusCode)
		}
		select {
		case <-s.proc.done:
			return errors.Errorf("it has exited: %v", s.proc.err)
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// URL is where the server is, also after a restart.
func (s *webServer) URL() string { return fmt.Sprintf("http://127.0.0.1:%d", s.port) }

// Port is the port that the server listens on, also after a restart.
func (s *webServer) Port() int { return s.port }

// Kill ends the server with SIGKILL, as a power cut would.
func (s *webServer) Kill() { s.proc.killTree() }

// Stop ends the server as an operator would.
func (s *webServer) Stop(t testing.TB) {
	t.Helper()
	if err := s.proc.stop(os.Interrupt); err != nil {
		t.Fatalf("testenv: stopping %s: %v", s.name, err)
	}
}

// Restart starts the server again, on the same port and data, after Kill or Stop.
func (s *webServer) Restart(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatalf("testenv: %v", err)
	}
}
