// Package redistest runs real Redis servers for tests, a primary and its replica under three Sentinels, and a TCP
// proxy that loses, holds and delays single requests on their way to a server.
//
// The network of internal/sim shows what a lock does under a fault in virtual time. This package shows
// the same with a server, a client library and sockets that nobody has written for the occasion.
package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/redislock/internal/wire"
)

const (
	// patience bounds every wait of this package. It is long because it only matters when something is broken.
	patience = 30 * time.Second
	pollEach = 5 * time.Millisecond
	// portAttempts is how many ports Start tries before it takes the failure for something else.
	portAttempts = 5
)

var errPortTaken = errors.New("the port is taken")

// T is what this package asks of a test. A testing.TB has it all, and a program that runs servers brings its own.
type T interface {
	Helper()
	Cleanup(func())
	TempDir() string
	Failed() bool
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
}

// Server is a redis-server process that belongs to one test. Its methods are meant for one goroutine at
// a time, except Addr.
type Server struct {
	t    T
	path string
	dir  string
	port int
	args []string
	proc *Process
}

// Available returns the server program that Start would run: redis-server, or valkey-server if only that
// is on the PATH.
func Available() (path string, ok bool) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// Version is the name and the version of the server program: "redis-server 7.0.15".
func Version() (string, error) {
	path, _ := Available()
	out, err := exec.Command(path, "--version").Output() // "Redis server v=7.0.15 sha=..."
	_, rest, _ := strings.Cut(string(out), " v=")
	number, _, _ := strings.Cut(rest, " ")
	return filepath.Base(path) + " " + number, err
}

// Start runs a server on a free port of the loopback interface, in a directory of its own and without
// persistence, and returns once it answers PING. It ends with the test, and what it printed is logged if
// the test failed.
//
// The args are added to the command line, where they win over the defaults: "--appendonly", "yes". They
// must leave port, bind and dir alone and must not ask for a password.
//
// Without a server program the test is skipped, or fails if REDISLOCK_REQUIRE_REDIS=1.
func Start(t T, args ...string) *Server {
	t.Helper()
	// TempDir comes before the clean-up of any process, so the directory is removed after they have ended.
	s := &Server{t: t, path: program(t), dir: t.TempDir(), args: args}
	err := onFreePort(func(port int) error {
		s.port = port
		return s.start()
	})
	if err != nil {
		t.Fatalf("redistest: start %s: %v", s.path, err)
	}
	return s
}

func program(t T) string {
	t.Helper()
	path, ok := Available()
	switch {
	case ok:
	case os.Getenv("REDISLOCK_REQUIRE_REDIS") == "1":
		t.Fatal("REDISLOCK_REQUIRE_REDIS=1, but there is no redis-server: apt-get install redis-server, or brew install redis")
	default:
		t.Skip("no redis-server: apt-get install redis-server, or brew install redis")
	}
	return path
}

// freePort looks below the ports that a system gives to outgoing connections (from 32768 on Linux). Such
// a connection could otherwise sit on the port when a server comes back to it.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 10000 + rand.IntN(20000)
		var l net.Listener
		if l, err = net.Listen("tcp", loopback(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port: %w", err)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Addr is the host and port of the server. It stays the same over a Restart.
func (s *Server) Addr() string { return loopback(s.port) }

// Client is a go-redis client with default options straight to the server. It is for looking at the
// truth behind a Proxy, and is closed with the test.
func (s *Server) Client(t T) *redis.Client {
	return newClient(t, &redis.Options{Addr: s.Addr()})
}

func newClient(t T, opts *redis.Options) *redis.Client {
	c := redis.NewClient(opts)
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it already
	return c
}

// Pause stops the process with SIGSTOP, see Process.Pause. The kernel goes on accepting connections and data for it,
// which is what a hung server looks like.
func (s *Server) Pause() {
	s.t.Helper()
	s.proc.Pause()
}

// Resume lets a paused process go on. It then executes what has arrived in the meantime.
func (s *Server) Resume() {
	s.t.Helper()
	s.proc.Resume()
}

// Kill ends the process with SIGKILL, paused or not, and waits until it has ended. A paused server
// executes nothing more. Killing a server that has ended is allowed.
func (s *Server) Kill() { s.proc.Kill() }

// Restart starts the server again with the same port, directory and args, after a Kill if it still runs.
// Without persistence it comes back empty; for its data to survive a Kill it needs the args
// "--appendonly", "yes", "--appendfsync", "always". The new process lives as long as the test that
// called Start.
func (s *Server) Restart(t T) {
	t.Helper()
	s.Kill()
	deadline := time.Now().Add(patience)
	err := s.start()
	for errors.Is(err, errPortTaken) && time.Now().Before(deadline) {
		time.Sleep(10 * pollEach)
		err = s.start()
	}
	if err != nil {
		t.Fatalf("redistest: restart %s: %v", s.path, err)
	}
}

// start runs a process and waits until it is ready.
func (s *Server) start() error {
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no",
	}
	p, err := launch(s.t, s.path, s.dir, append(args, s.args...))
	if err != nil {
		return err
	}
	s.proc = p
	return p.ready(s.Addr())
}

// ready waits until a server process answers at addr.
func (p *Process) ready(addr string) error {
	err := p.poll(func() (bool, error) { return answers(addr, p.pid()), nil })
	if err != nil && strings.Contains(p.out.String(), "already in use") {
		return errPortTaken
	}
	return err
}

// answers tells whether the process answers PING at addr. It asks for the process id as well: when two
// servers reach for one port, the other one would answer PING just as happily.
func answers(addr string, pid int) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\nINFO server\r\n")); err != nil {
		return false
	}
	r := bufio.NewReader(c)
	pong, err := wire.ReadReply(r)
	if err != nil || string(pong) != "+PONG\r\n" { // "-LOADING ..." while it reads its data
		return false
	}
	info, err := wire.ReadReply(r)
	return err == nil && bytes.Contains(info, fmt.Appendf(nil, "process_id:%d\r\n", pid))
}
