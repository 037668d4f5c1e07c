package sim

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/redislock/internal/wire"
)

// Plan says what to explore: some clients, each with something to do, and what may go wrong meanwhile.
//
// Every command of every client stops at a gate before it leaves. When all of them stand still, the explorer
// chooses what happens next, and lets exactly that happen. Going through all choices, and running the real code
// from the start for each, goes through everything that can happen within the plan.
//
// The search goes breadth first: all schedules of one step, then of two, and so on. So the first counterexample is a
// shortest one. Schedules that lead to the same state (each client has seen the same, the nodes hold the same, the
// clock shows the same) have the same future, and only the first of them is continued. The processes have to be alike:
// then it does not matter which of them moves first, and the first in the list is taken.
type Plan struct {
	Setup   func(w *World) []Process // builds the world, anew for each schedule
	Final   func(w *World)           // when all is over and every TTL has ended: somebody new takes the lock
	TTL     time.Duration            // of the locks, so that the explorer knows when every TTL has ended
	Crashes int                      // how many clients may crash in one schedule
	Losses  int                      // how many replies may be lost in one schedule
	Most    int                      // stop after so many schedules, and say that the search was not exhaustive
}

// Process is a client and what it does.
type Process struct {
	Client *Client
	Run    func()
}

// Report is what an exploration found. All but Elapsed is the same on every run.
type Report struct {
	Schedules  int // schedules that were run
	States     int // different states that they led to
	Longest    int // steps of the longest schedule
	Broken     int // schedules that end in a finding
	Exhaustive bool
	Elapsed    time.Duration
	Shortest   []Counterexample // for each verdict the shortest schedule that leads to it
}

// Counterexample is a schedule that breaks the lock.
type Counterexample struct {
	Schedule string // the id of the schedule, see choice; give it to Replay
	Finding  Finding
	History  *History
}

// A choice is one step of a schedule, and its name is what stands in a schedule's id, joined by dots:
//
//	A   client A goes on: its next command is executed, or its work is done
//	A!  client A crashes instead
//	A~  A's command is executed, and the reply is lost
//	t   time passes until the next TTL ends
//	w   time passes until a client that waits or sleeps sends its next command
type choice string

const (
	tick choice = "t"
	wait choice = "w"
)

// Explore runs every schedule of the plan, on all processors.
func Explore(t *testing.T, p Plan) Report {
	t.Helper()
	began := time.Now()
	report := Report{Exhaustive: true}
	seen := map[string]bool{}
	for level := [][]choice{nil}; len(level) > 0; {
		if report.Schedules += len(level); report.Schedules > p.Most {
			report.Exhaustive = false
			break
		}
		var next [][]choice
		for i, r := range p.runAll(t, level) {
			report.Longest = max(report.Longest, len(level[i]))
			if r.finding.Verdict != Holds {
				report.add(level[i], r)
				continue
			}
			if seen[r.state] {
				continue
			}
			seen[r.state] = true
			for _, c := range r.options {
				next = append(next, append(slices.Clone(level[i]), c))
			}
		}
		level = next
	}
	report.States = len(seen)
	report.Elapsed = time.Since(began)
	return report
}

// runAll runs schedules side by side. The results come in the order of the schedules.
func (p Plan) runAll(t *testing.T, schedules [][]choice) []result {
	results := make([]result, len(schedules))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(schedules)); i = next.Add(1) - 1 {
				results[i] = p.run(t, schedules[i])
			}
		})
	}
	workers.Wait()
	return results
}

// add keeps a counterexample, if it is the first of its kind.
func (r *Report) add(schedule []choice, found result) {
	r.Broken++
	for _, known := range r.Shortest {
		if known.Finding.Verdict == found.finding.Verdict {
			return
		}
	}
	r.Shortest = append(r.Shortest, Counterexample{Schedule: join(schedule), Finding: found.finding, History: found.history})
}

func join(steps []choice) string {
	var names []string
	for _, s := range steps {
		names = append(names, string(s))
	}
	return strings.Join(names, ".")
}

// Replay runs one schedule and returns what happened in it.
func Replay(t *testing.T, p Plan, schedule string) (*History, Finding) {
	t.Helper()
	var steps []choice
	for _, s := range strings.Split(schedule, ".") {
		steps = append(steps, choice(s))
	}
	r := p.run(t, steps)
	return r.history, r.finding
}

// result is what a schedule led to.
type result struct {
	options []choice // what can happen next; nothing when all is over
	state   string   // equal states have equal futures
	history *History
	finding Finding
}

// run runs one schedule. If nothing can happen any more after it, it lets somebody new try the lock.
func (p Plan) run(t *testing.T, schedule []choice) result {
	var r result
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		x := &explorer{plan: p, w: w, parked: map[*Client]*parked{}, moved: map[*Client]bool{}, done: map[*Client]bool{}, arrived: make(chan struct{}, 1)}
		w.gate = x.park
		x.processes = p.Setup(w)
		x.start()
		for i, c := range schedule {
			if options := x.options(); !slices.Contains(options, c) {
				t.Fatalf("schedule %s: step %d can't be %q here, only one of %q", join(schedule), i+1, c, options)
			}
			x.take(c)
		}
		r.options = x.options()
		r.state = x.state()
		if len(r.options) == 0 {
			x.finish()
		}
		r.finding = CheckLeases(w.History())
		w.gate = nil
		x.release()
		r.history = w.end()
	})
	return r
}

// explorer drives one schedule.
type explorer struct {
	plan      Plan
	w         *World
	processes []Process
	arrived   chan struct{} // somebody has parked

	mu      sync.Mutex
	parked  map[*Client]*parked
	moved   map[*Client]bool
	done    map[*Client]bool
	running int // processes that are not done
	crashes int
	losses  int
}

// parked is a client that stands at the gate.
type parked struct {
	r     *request
	leave chan struct{}
}

// park stops a client at the gate until the explorer lets it pass. It runs on the client's goroutine.
func (x *explorer) park(r *request) bool {
	p := &parked{r: r, leave: make(chan struct{})}
	x.mu.Lock()
	x.parked[r.client] = p
	x.mu.Unlock()
	select {
	case x.arrived <- struct{}{}:
	default:
	}
	<-p.leave
	r.client.pass() // it may have crashed here
	return true
}

func (x *explorer) start() {
	x.running = len(x.processes)
	for _, p := range x.processes {
		p.Client.Do(func() {
			p.Run()
			x.mu.Lock()
			x.running--
			x.done[p.Client] = true
			x.mu.Unlock()
		})
	}
	synctest.Wait()
}

// options lists what can happen next.
func (x *explorer) options() []choice {
	x.mu.Lock()
	defer x.mu.Unlock()
	var move, lose, crash []choice
	dead, fresh := 0, false
	for _, p := range x.processes {
		if p.Client.dead {
			dead++
			continue
		}
		at, isParked := x.parked[p.Client]
		if !isParked {
			continue
		}
		if !x.moved[p.Client] {
			if fresh {
				dead++ // it is like the other one that has not moved either, so it need not be the next
				continue
			}
			fresh = true
		}
		name := p.Client.name
		move = append(move, choice(name))
		if at.r.conn != nil && x.losses < x.plan.Losses {
			lose = append(lose, choice(name+"~"))
		}
		if x.crashes < x.plan.Crashes {
			crash = append(crash, choice(name+"!"))
		}
	}
	options := move
	if x.nextExpiry() > 0 {
		options = append(options, tick)
	}
	if len(move)+dead < x.running { // somebody lives, and is not at the gate: it waits for time to pass
		options = append(options, wait)
	}
	return slices.Concat(options, lose, crash)
}

// nextExpiry returns when the next TTL ends, 0 if there is none.
func (x *explorer) nextExpiry() time.Duration {
	var next time.Duration
	for _, n := range x.w.nodes {
		for _, o := range n.owners {
			if o.deadline != Forever && (next == 0 || o.deadline < next) && o.deadline > x.w.Now() {
				next = o.deadline
			}
		}
	}
	return next
}

// take lets one choice happen, and everything that follows from it at once.
func (x *explorer) take(c choice) {
	switch {
	case c == tick:
		time.Sleep(x.nextExpiry() - x.w.Now())
	case c == wait:
		x.drain()
		<-x.arrived
	default:
		x.letGo(c)
	}
	synctest.Wait()
}

func (x *explorer) drain() {
	select {
	case <-x.arrived:
	default:
	}
}

func (x *explorer) letGo(c choice) {
	name := strings.TrimRight(string(c), "!~")
	x.mu.Lock()
	defer x.mu.Unlock()
	for client, p := range x.parked {
		if client.name != name {
			continue
		}
		switch {
		case strings.HasSuffix(string(c), "!"):
			x.crashes++
			client.Crash()
		case strings.HasSuffix(string(c), "~"):
			x.losses++
			p.r.loseIt = true
		}
		x.moved[client] = true
		delete(x.parked, client)
		close(p.leave)
		return
	}
}

// state describes all on which the future depends: the clock, what may still go wrong, and for each client what it has
// seen, what it is about to do, and which keys are its own. The clients are alike, so their names are left out, and
// so is the past of those that are done or dead: it has no future.
func (x *explorer) state() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var clients []string
	for _, p := range x.processes {
		clients = append(clients, x.stateOf(p.Client))
	}
	slices.Sort(clients)
	return fmt.Sprintf("%v %d %d\n%s", x.w.Now(), x.crashes, x.losses, strings.Join(clients, "\n"))
}

func (x *explorer) stateOf(c *Client) string {
	var b strings.Builder
	at, standing := x.parked[c]
	switch {
	case c.dead:
		b.WriteString("dead")
	case x.done[c]:
		b.WriteString("done")
	default:
		for _, e := range x.w.history.Events {
			if e.Client == c.name {
				fmt.Fprintf(&b, "%v %s %s;", e.At, e.Text, strings.ReplaceAll(e.Reply, c.name+"'s", "own"))
			}
		}
	}
	if standing {
		b.WriteString(" at " + wire.Name(at.r.words))
	}
	for _, n := range x.w.nodes {
		for _, key := range slices.Sorted(maps.Keys(n.owners)) {
			if o := n.owners[key]; o.client == c.name {
				fmt.Fprintf(&b, " has %s %s until %v", n.name, key, o.deadline)
			}
		}
	}
	return b.String()
}

// finish lets every TTL end, and somebody new take the lock.
func (x *explorer) finish() {
	x.w.gate = nil
	time.Sleep(2 * x.plan.TTL)
	if x.plan.Final != nil {
		x.plan.Final(x.w)
	}
}

// release lets everybody who still stands at the gate run into the end of the world.
func (x *explorer) release() {
	x.w.mu.Lock()
	x.w.ended = true
	x.w.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.parked {
		close(p.leave)
	}
	clear(x.parked)
}

// Work is a step of an exploration in which the client does what the lock is for. Others may go first, or time may
// pass. In a story it does nothing.
func (c *Client) Work() {
	if c.w.gate != nil {
		c.w.gate(&request{client: c, words: []string{"work"}})
	}
}
