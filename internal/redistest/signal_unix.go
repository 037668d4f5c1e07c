//go:build unix

package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// CanPause tells whether Pause and Resume work on this system.
const CanPause = true

func sendStop(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func sendCont(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// isStopped looks at the process from outside. wait4 with WUNTRACED would tell too, but it could take
// the exit status away from the Wait that is under way.
func isStopped(pid int) (bool, error) {
	if runtime.GOOS != "linux" {
		out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		return strings.HasPrefix(strings.TrimSpace(string(out)), "T"), err
	}
	// Signals stop threads one by one.
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false, err
	}
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if err != nil {
			return false, nil // that thread has just ended: look again
		}
		// The state follows the name, which stands in brackets and may hold anything.
		_, state, _ := strings.Cut(string(stat[strings.LastIndex(string(stat), ")")+1:]), " ")
		if !strings.HasPrefix(state, "T") {
			return false, nil
		}
	}
	return true, nil
}
