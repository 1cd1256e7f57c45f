package testenv

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

// A process is a server. A goroutine of its own starts it and waits for it.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // how it ended; may be read after done
}

// startProcess starts a server whose output goes to a file.
func startProcess(path string, args []string, dir, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, errors.Wrap(err, "the server's log")
	}
	defer func() { _ = out.Close() }()
	p := &process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.SysProcAttr = asServerUser()
	dieWithParent(p.cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		// The death of the thread that started it, not of the process, is what a child notices.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, errors.Wrap(err, "starting a server")
	}
	return p, nil
}

// stop asks the server to end, and kills it if it does not.
func (p *process) stop(signal os.Signal) error {
	if p == nil {
		return nil
	}
	select {
	case <-p.done:
		return nil
	default:
	}
	_ = p.cmd.Process.Signal(signal) // It may have ended just now.
	select {
	case <-p.done:
		return nil
	case <-time.After(30 * time.Second):
		p.killTree()
		return errors.New("the server did not end within 30 s, and was killed")
	}
}

// killTree kills the server and its children, the server first so that it starts no new ones.
func (p *process) killTree() {
	if p == nil {
		return
	}
	children := childrenOf(p.cmd.Process.Pid)
	_ = p.cmd.Process.Kill() // It may have ended already.
	for _, pid := range append(children, childrenOf(p.cmd.Process.Pid)...) {
		if child, err := os.FindProcess(pid); err == nil {
			_ = child.Signal(syscall.SIGKILL)
		}
	}
	<-p.done
}
