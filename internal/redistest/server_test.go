package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestServerIsEmptyAndKeepsNothing(t *testing.T) {
	ctx := t.Context()
	s := Start(t)
	c := s.Client(t)
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())

	s.Kill()
	require.False(t, alive(s.proc.pid()))
	_, err := net.Dial("tcp", s.Addr())
	require.Error(t, err)

	addr := s.Addr()
	s.Restart(t)
	require.Equal(t, addr, s.Addr())
	require.ErrorIs(t, c.Get(ctx, "k").Err(), redis.Nil)
}

func TestServerArgsBringPersistence(t *testing.T) {
	ctx := t.Context()
	s := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	c := s.Client(t)
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())
	first := s.proc.pid()

	s.Restart(t) // kills it first
	require.False(t, alive(first))
	require.Equal(t, "v", c.Get(ctx, "k").Val())
}

func TestServersAreSeparate(t *testing.T) {
	ctx := t.Context()
	a, b := Start(t), Start(t)
	require.NoError(t, a.Client(t).Set(ctx, "k", "v", 0).Err())
	require.ErrorIs(t, b.Client(t).Get(ctx, "k").Err(), redis.Nil)
}

func TestPauseLetsNoCommandThrough(t *testing.T) {
	ctx := t.Context()
	s := Start(t)
	c := s.Client(t)
	raw, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer raw.Close()

	for i := range 20 {
		s.Pause()
		sent := time.Now()
		_, err := fmt.Fprintf(raw, "SET k %d\r\n", i)
		require.NoError(t, err)
		require.NoError(t, raw.SetReadDeadline(sent.Add(20*time.Millisecond)))
		_, err = bufio.NewReader(raw).ReadByte()
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)

		s.Resume()
		require.NoError(t, raw.SetReadDeadline(time.Now().Add(patience)))
		line, err := bufio.NewReader(raw).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "+OK\r\n", line)
		require.Equal(t, strconv.Itoa(i), c.Get(ctx, "k").Val())
	}
}

func TestKillOfAPausedServerExecutesNothingMore(t *testing.T) {
	ctx := t.Context()
	s := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s.Pause()
	raw, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer raw.Close()
	_, err = raw.Write([]byte("SET k v\r\n"))
	require.NoError(t, err)

	s.Restart(t)
	require.ErrorIs(t, s.Client(t).Get(ctx, "k").Err(), redis.Nil)
}

func TestPortTakenByAnotherServer(t *testing.T) {
	first := Start(t)
	second := &Server{t: t, path: first.path, dir: t.TempDir(), port: first.port}
	require.ErrorIs(t, second.start(), errPortTaken, "the other server's PONG does not count")
}

func TestRestartWaitsForItsPort(t *testing.T) {
	s := Start(t)
	s.Kill()
	l, err := net.Listen("tcp", s.Addr())
	require.NoError(t, err)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			c.Close()
		}
	}()
	launches := 0
	s.t = &recorder{TB: t, onCleanup: func() {
		if launches++; launches == 2 { // the first one has failed
			l.Close()
		}
	}}
	s.Restart(t)
	require.GreaterOrEqual(t, launches, 2)
	require.NoError(t, s.Client(t).Ping(t.Context()).Err())
}

func TestWrongArgsFailWithTheReason(t *testing.T) {
	needsServer(t)
	s := &Server{t: t, path: program(t), dir: t.TempDir(), args: []string{"--no-such-option", "1"}}
	var err error
	s.port, err = freePort()
	require.NoError(t, err)
	err = s.start()
	require.ErrorContains(t, err, "has ended: exit status 1")
	require.Contains(t, s.proc.out.String(), "no-such-option")
}

func TestNoServerProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, ok := Available()
	require.False(t, ok)

	t.Setenv("REDISLOCK_REQUIRE_REDIS", "")
	require.Equal(t, "skip: no redis-server: apt-get install redis-server, or brew install redis", verdict(t))

	t.Setenv("REDISLOCK_REQUIRE_REDIS", "1")
	require.Contains(t, verdict(t), "fatal: REDISLOCK_REQUIRE_REDIS=1")
}

func TestNothingRemains(t *testing.T) {
	needsServer(t)
	before := goleak.IgnoreCurrent()
	var pids []int
	var dir string
	t.Run("a test that leaves everything open", func(t *testing.T) {
		s := Start(t)
		dir = s.dir
		p := NewProxy(t, s.Addr())
		require.NoError(t, p.Client(t).Set(t.Context(), "k", "v", 0).Err())
		h := p.HoldRequest(named("SET"))
		c := p.Client(t, once)
		go c.Set(context.Background(), "k", "held", 0)
		within(t, h.Caught())
		pids = append(pids, s.proc.pid())
		s.Restart(t)
		pids = append(pids, s.proc.pid())
		s.Pause()
	})
	for _, pid := range pids {
		require.False(t, alive(pid))
	}
	require.NoDirExists(t, dir)
	goleak.VerifyNone(t, before)
}

// The panic comes from a goroutine, so no clean-up runs. Only the kernel is left to end the server.
func TestServerDiesWithTheTestBinary(t *testing.T) {
	if os.Getenv("REDISTEST_PANIC") == "1" {
		s := Start(t)
		fmt.Printf("pid %d\n", s.proc.pid())
		go panic("on purpose")
		select {}
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a process with its parent")
	}
	needsServer(t)
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	// The directory takes up what the other test leaves, since it can't clean up.
	cmd.Env = append(os.Environ(), "REDISTEST_PANIC=1", "TMPDIR="+t.TempDir())
	out, err := cmd.Output()
	require.Error(t, err)
	_, rest, ok := strings.Cut(string(out), "pid ")
	require.True(t, ok, "%s", out)
	line, _, _ := strings.Cut(rest, "\n")
	pid, err := strconv.Atoi(line)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !alive(pid) }, patience, pollEach)
}

// verdict is what Start says to a test that has no server program.
func verdict(t *testing.T) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Start(r)
	}()
	<-done
	return r.text
}

// recorder stands in for a test that must fail or skip.
type recorder struct {
	testing.TB
	text      string
	onCleanup func()
}

func (r *recorder) Cleanup(f func()) {
	r.TB.Cleanup(f)
	if r.onCleanup != nil {
		r.onCleanup()
	}
}

func (r *recorder) Skip(args ...any)  { r.note("skip: " + fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Fatal(args ...any) { r.note("fatal: " + fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Errorf(format string, args ...any) {
	r.note("error: " + fmt.Sprintf(format, args...))
}
func (r *recorder) note(s string) { r.text += s }

// needsServer skips a test whose servers are started elsewhere than in its own goroutine.
func needsServer(t *testing.T) {
	t.Helper()
	program(t)
}

// alive leaves out a zombie: it has ended, and waits for a parent that may never ask.
func alive(pid int) bool {
	if runtime.GOOS == "linux" {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && !strings.Contains(string(stat), ") Z ")
	}
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

func within(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("it did not happen")
	}
}
