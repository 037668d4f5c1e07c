package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"example.com/redislock/internal/redistest"
)

// What stands between these lines of a README is the output of a run.
const recordBegin, recordEnd = "<!-- demo -->\n", "<!-- /demo -->"

// record performs and writes what was printed into a file, if all was as documented.
func record(ctx context.Context, o options, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), recordBegin)
	_, after, ok2 := strings.Cut(rest, recordEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q", file, strings.TrimSpace(recordBegin), recordEnd)
	}
	var log bytes.Buffer
	r := newReport(os.Stdout)
	r.copy = &log
	if err := perform(ctx, o, os.Stdout, r); err != nil {
		return err
	}
	block := fmt.Sprintf("A run of %s, on %s.\n\n```text\n%s\n```\n",
		time.Now().Format(time.DateOnly), machine(), strings.TrimSpace(log.String()))
	return os.WriteFile(file, []byte(before+recordBegin+block+recordEnd+after), 0o644)
}

// machine says what the figures depend on.
func machine() string {
	server := "embedded nodes"
	if version, err := redistest.Version(); err == nil {
		server = version
	}
	return fmt.Sprintf("%s, %s/%s, %d CPUs", server, runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}
