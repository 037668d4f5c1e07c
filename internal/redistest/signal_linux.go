package redistest

import (
	"os/exec"
	"syscall"
)

func init() {
	tieToParent = func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
}
