package testenv

import (
	"bytes"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/pkg/errors"
)

// serverUser is whom servers run as that refuse to be run by root.
const serverUser = "postgres"

// asServerUser returns the attributes of a process that does not run as root.
func asServerUser() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if uid, gid, ok := serverIDs(); ok {
		attr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return attr
}

// handOver gives a directory to the user that servers run as.
func handOver(dir string) error {
	uid, gid, ok := serverIDs()
	if !ok {
		return nil
	}
	return errors.Wrap(os.Chown(dir, int(uid), int(gid)), "giving the directory to the server's user")
}

func serverIDs() (uid, gid uint32, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	u, err := user.Lookup(serverUser)
	if err != nil {
		return 0, 0, false
	}
	id, err1 := strconv.ParseUint(u.Uid, 10, 32)
	group, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(id), uint32(group), err1 == nil && err2 == nil
}

// dieWithParent makes the kernel stop the server when the test's process is gone: SIGQUIT is an
// immediate shutdown to PostgreSQL.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }

// childrenOf lists the processes whose parent is pid.
func childrenOf(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var children []int
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may hold anything; the state and the parent follow it.
		fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			children = append(children, child)
		}
	}
	return children
}
