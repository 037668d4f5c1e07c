package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"example.com/redislock/internal/redistest"
)

// crew is the parent's side of the worker processes.
type crew struct {
	stage   *stage
	job     job // of every worker, apart from its number and role
	workers []*member
	board   *board // gets their numbers, if they tell them

	mu     sync.Mutex
	events history
	news   chan struct{} // closed and replaced at each event
}

type member struct {
	*redistest.Process
	stdin io.Writer
}

func newCrew(s *stage, j job, b *board) *crew {
	j.Counts = b != nil
	return &crew{stage: s, job: j, board: b, news: make(chan struct{})}
}

// hire starts one more worker, which begins at once.
func (c *crew) hire(r role) error {
	j := c.job
	j.Worker, j.Role = len(c.workers), r
	spec, err := json.Marshal(j)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(spec))
	cmd.Stdout, cmd.Stderr = &reader{crew: c}, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	p, err := redistest.Run(c.stage, cmd)
	c.workers = append(c.workers, &member{p, stdin})
	return err
}

// word tells a worker to go on. One that has lost its lease goes on without it, and may have ended before it comes.
func (m *member) word() error {
	_, err := io.WriteString(m.stdin, "go\n")
	if errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE) {
		return nil // if it has ended before the sale did, audit says so
	}
	return err
}

// reader takes the lines that a worker prints.
type reader struct {
	crew *crew
	rest []byte
}

func (r *reader) Write(b []byte) (int, error) {
	r.rest = append(r.rest, b...)
	for {
		line, rest, ok := bytes.Cut(r.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		r.rest = rest
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			r.crew.stage.Errorf("a worker said %q", line)
			continue
		}
		if e.What == counted {
			r.crew.board.put(e.Worker, e.Numbers)
			continue
		}
		r.crew.note(e)
	}
}

func (c *crew) note(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
	close(c.news)
	c.news = make(chan struct{})
}

func (c *crew) look() (history, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clip(c.events), c.news
}

// patience bounds every wait for the crew. It only matters when something is broken.
const patience = time.Minute

// await waits until what the workers have told satisfies done.
func (c *crew) await(ctx context.Context, what string, done func(history) bool) error {
	late := time.After(patience)
	for {
		events, news := c.look()
		if done(events) {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		case <-late:
			return fmt.Errorf("waited in vain until %s", what)
		}
	}
}

// finish waits until all workers have ended, which they do when the shop is sold out.
func (c *crew) finish(ctx context.Context) (history, error) {
	late := time.After(patience)
	for _, w := range c.workers {
		select {
		case <-w.Exited():
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late:
			events, _ := c.look()
			return events, fmt.Errorf("the sale has not ended within %v", patience)
		}
	}
	events, _ := c.look()
	return events, c.audit(events)
}

// audit makes sure that no worker has ended before the sale did.
func (c *crew) audit(events history) error {
	for i := range c.workers {
		if events.count(func(e event) bool { return e.Worker == i && e.What == soldOut }) == 0 {
			return fmt.Errorf("worker %d has ended before the sale did", i)
		}
	}
	return nil
}
