package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"example.com/redislock/internal/redistest"
)

// stage is to this program what a *testing.T is to a test: it ends the servers that were started on it.
type stage struct {
	root string // for the servers' folders

	mu       sync.Mutex
	cleanups []func()
	errs     []error
}

var _ redistest.T = (*stage)(nil)

// errStage is what Fatal panics with.
var errStage = errors.New("the stage has failed")

// onStage calls play and then ends and removes everything, whether play returns, fails or panics.
func onStage(play func(redistest.T)) (err error) {
	root, err := os.MkdirTemp("", "benchmarks-")
	if err != nil {
		return err
	}
	s := &stage{root: root}
	defer func() {
		failure := recover()
		for _, f := range slices.Backward(s.cleanups) {
			f()
		}
		_ = os.RemoveAll(root)
		if failure != nil && failure != error(errStage) {
			panic(failure)
		}
		err = errors.Join(s.errs[:min(len(s.errs), 10)]...)
	}()
	play(s)
	return nil
}

func (s *stage) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, f)
}

func (s *stage) TempDir() string {
	dir, err := os.MkdirTemp(s.root, "server-")
	must(s, err)
	return dir
}

func (s *stage) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.errs) > 0
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

func (s *stage) Logf(string, ...any) {} // what the servers have printed
func (s *stage) Fatal(args ...any)   { s.Fatalf("%s", fmt.Sprint(args...)) }
func (s *stage) Skip(args ...any)    { s.Fatal(args...) }
func (s *stage) Helper()             {}

func must(t redistest.T, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
