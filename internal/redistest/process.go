package redistest

import (
	"bytes"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Process is one run of a program. It ends with the test.
type Process struct {
	t      T
	cmd    *exec.Cmd
	out    *output // of a server
	exited chan struct{}
}

// tieToParent makes a command die with the test binary, for the cases in which no clean-up runs: a panic
// in a goroutine, -timeout, SIGKILL. Only Linux has it; elsewhere a server outlives such an end.
var tieToParent = func(*exec.Cmd) {}

// Run starts a command. What it prints goes where cmd.Stdout and cmd.Stderr say.
func Run(t T, cmd *exec.Cmd) (*Process, error) {
	p, err := start(t, cmd)
	if err == nil {
		t.Cleanup(p.Kill)
	}
	return p, err
}

// launch starts a server program. What it prints is logged if the test fails.
func launch(t T, path, dir string, args []string) (*Process, error) {
	out := new(output)
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	p, err := start(t, cmd)
	if err != nil {
		return nil, err
	}
	p.out = out
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s, process %d:\n%s", strings.Join(cmd.Args, " "), p.pid(), out)
		}
	})
	return p, nil
}

func start(t T, cmd *exec.Cmd) (*Process, error) {
	p := &Process{t: t, cmd: cmd, exited: make(chan struct{})}
	// Wait ends when the last holder of the output has ended, so a child that the server forked to save
	// its data has left the directory too. This bounds that wait.
	cmd.WaitDelay = patience
	tieToParent(cmd)
	started := make(chan error)
	go p.run(started)
	return p, <-started
}

// run keeps its OS thread for as long as the process lives: Linux sends the parent's death signal when
// the thread that forked ends, and the Go runtime would be free to end it at any time.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // it was killed, mostly
		close(p.exited)
	}
}

// Exited is closed once the process has ended and all that it printed has been passed on.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Pause stops the process with SIGSTOP and returns once each of its threads has stopped, so nothing sneaks through.
// Pause panics on a system without SIGSTOP.
func (p *Process) Pause() {
	p.t.Helper()
	if err := sendStop(p.cmd.Process); err != nil {
		p.t.Errorf("redistest: pause: %v", err)
		return
	}
	err := p.poll(func() (bool, error) { return isStopped(p.pid()) })
	if err != nil {
		p.t.Errorf("redistest: pause: %v", err)
	}
}

// Resume lets a paused process go on.
func (p *Process) Resume() {
	p.t.Helper()
	if err := sendCont(p.cmd.Process); err != nil {
		p.t.Errorf("redistest: resume: %v", err)
	}
}

// Kill ends the process with SIGKILL and waits until it has ended. It needs no SIGCONT first: SIGKILL ends a
// stopped process too, and this way it executes nothing that has arrived since.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended
	<-p.exited
}

func (p *Process) pid() int { return p.cmd.Process.Pid }

// poll asks until the answer is yes, the process has ended, or patience has.
func (p *Process) poll(done func() (bool, error)) error {
	deadline := time.After(patience)
	tick := time.NewTicker(pollEach)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return fmt.Errorf("the process has ended: %v", p.cmd.ProcessState)
		case <-deadline:
			return fmt.Errorf("not within %v", patience)
		}
	}
}

// output collects what a process prints, and can be read while it prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
