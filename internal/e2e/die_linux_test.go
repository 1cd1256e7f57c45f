package e2e

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill a server whose test was killed.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
