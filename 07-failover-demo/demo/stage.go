package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/alicebob/miniredis/v2"

	"example.com/redislock/internal/redistest"
)

// stage is to one run what a *testing.T is to a test: it ends whatever was started on it.
type stage struct {
	root string // for the folders
	keep bool

	mu       sync.Mutex
	cleanups []func()
	errs     []error
}

var _ redistest.T = (*stage)(nil)

// onStage calls play and then ends and removes everything, whether play returns, fails or panics.
func onStage(keep bool, play func(*stage) error) (err error) {
	root, err := os.MkdirTemp("", "flash-sale-")
	if err != nil {
		return err
	}
	s := &stage{root: root, keep: keep}
	defer func() {
		failure := recover()
		if failure != nil && failure != error(errStage) {
			s.clear()
			panic(failure)
		}
		s.mu.Lock()
		s.errs = append(s.errs, err)
		s.mu.Unlock()
		s.clear()
		err = errors.Join(s.errs...)
	}()
	return play(s)
}

// errStage is what Fatal panics with.
var errStage = errors.New("the stage has failed")

func (s *stage) clear() {
	for len(s.cleanups) > 0 {
		last := len(s.cleanups) - 1
		f := s.cleanups[last]
		s.cleanups = s.cleanups[:last]
		f()
	}
	if !s.keep {
		_ = os.RemoveAll(s.root)
	}
}

func (s *stage) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

func (s *stage) TempDir() string {
	dir, err := os.MkdirTemp(s.root, "server-")
	if err != nil {
		s.Fatal(err)
	}
	return dir
}

func (s *stage) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.errs, func(err error) bool { return err != nil })
}

func (s *stage) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

func (s *stage) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	panic(error(errStage))
}

// Logf is called with what the servers have printed, when something has failed.
func (s *stage) Logf(format string, args ...any) {
	log, err := os.OpenFile(filepath.Join(s.root, "servers.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer log.Close()
	fmt.Fprintf(log, format+"\n", args...)
}

func (s *stage) Fatal(args ...any) { s.Fatalf("%s", fmt.Sprint(args...)) }
func (s *stage) Skip(args ...any)  { s.Fatal(args...) }
func (s *stage) Helper()           {}

// node is a Redis server that keeps its data over a restart.
type node interface {
	Addr() string
	Kill()
	Revive()
}

// startNode starts a real server, or an embedded one.
func (s *stage) startNode(embedded bool) node {
	if embedded {
		return s.startEmbedded()
	}
	return real{redistest.Start(s, "--appendonly", "yes", "--appendfsync", "always"), s}
}

type real struct {
	*redistest.Server
	stage *stage
}

func (r real) Revive() { r.Restart(r.stage) }

func (s *stage) startEmbedded() node {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(m.Close)
	return simulated{m, s}
}

type simulated struct {
	*miniredis.Miniredis
	stage *stage
}

func (e simulated) Kill() { e.Close() }

func (e simulated) Revive() {
	if err := e.Restart(); err != nil {
		e.stage.Fatal(err)
	}
}
