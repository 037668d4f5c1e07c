package sim

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Plan says what to explore: some clients, each with something to do, and what may go wrong meanwhile.
//
// Every command of every client stops at a gate before it leaves. When all of them stand still, the explorer
// chooses what happens next, and lets exactly that happen. Going through all choices, and running the real code
// from the start for each, goes through everything that can happen within the plan.
//
// A lock may renew its lease while its client stands at Work. So when the clock moves is a choice too: to the next
// timer of a client that renews (w), or past it to the end of a TTL (t). A renewal stands at the gate like any command,
// for as long as the schedule says. The lock has to stop waiting for it by itself: one that is beyond the plan never ends.
//
// The search goes breadth first: all schedules of one step, then of two, and so on. So the first counterexample is a
// shortest one. Schedules that lead to the same state (each client has sent and seen the same, the nodes hold the
// same, the clock shows the same) have the same future, and only the first of them is continued. The processes have to be alike:
// then it does not matter which of them moves first, and the first in the list is taken.
type Plan struct {
	Setup   func(w *World) []Process // builds the world, anew for each schedule
	Final   func(w *World)           // when all is over and every TTL has ended: somebody new takes the lock
	TTL     time.Duration            // of the locks, so that the explorer knows when every TTL has ended
	Crashes int                      // how many clients may crash in one schedule
	Losses  int                      // how many replies may be lost in one schedule
	Most    int                      // stop after so many schedules, and say that the search was not exhaustive

	// What may happen to nodes in one schedule: so many outages, each ended by a restart with the data or lasting for good; so
	// many restarts that lose the data; so many jumps of a node's clock, which end its next TTL at once.
	Outages, Empties, Jumps int

	// Renewals is how many renewals reach the gate in one schedule. What is sent beyond stays in the network for ever.
	// A renewal prolongs a key (wire.Extends) and is sent by a client that has entered, whoever of its goroutines does it.
	Renewals int

	// Commands to different nodes commute, and one node is like another: A1.A2, A2.A1 and A1.A3 lead to one state, which is
	// continued once. That is sound if the clients ask all nodes alike, at once, and count the answers.
	//
	// Ordered says that a client's code looks at the order in which different nodes answer it, as in "the first
	// answer counts". Otherwise what a client has seen of each node is its state, in whatever order the nodes came.
	Ordered bool

	first bool // for tests: stop when something is found
	plain bool // for tests: merge no states, and let every process be the first to move
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
//	A2  the same for A's command to the second node, in a world of several nodes
//	A!  client A crashes instead
//	A~  A's command is executed, and the reply is lost
//	t   time passes until the next TTL ends
//	w   time passes until a client that waits or sleeps sends its next command, or is done; or until one that is at
//	    work sends its next renewal
//
//	1x  node 1 dies, and whatever is on its way there fails
//	1r  node 1 is back, with its data
//	1e  node 1 restarts, or is back, empty
//	1t  node 1's clock jumps to the end of its next TTL
//
// If a client has several commands for one node at the gate, the second is A', the third A".
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
	for level := [][]choice{nil}; len(level) > 0 && report.Exhaustive; {
		if most := p.Most - report.Schedules; len(level) > most {
			level, report.Exhaustive = level[:most], false
		}
		var next [][]choice
		for i, r := range p.runAll(t, level) {
			report.Longest = max(report.Longest, len(level[i]))
			if r.finding.Verdict != Holds {
				report.add(level[i], r)
				continue
			}
			if seen[r.state] && !p.plain {
				continue
			}
			seen[r.state] = true
			for _, c := range r.options {
				next = append(next, append(slices.Clone(level[i]), c))
			}
		}
		report.Schedules += len(level)
		if level = next; p.first && report.Broken > 0 {
			report.Exhaustive = false
			break
		}
	}
	report.States = len(seen)
	report.Elapsed = time.Since(began)
	return report
}

// runAll runs schedules side by side. The results come in the order of the schedules.
func (p Plan) runAll(t *testing.T, schedules [][]choice) []result {
	t.Helper()
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
	for _, r := range results {
		if r.err != nil { // what could happen a moment ago can't any more
			t.Fatalf("the code under test does not do the same every time: %v", r.err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
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

func split(schedule string) []choice {
	var steps []choice
	for s := range strings.SplitSeq(schedule, ".") {
		if s != "" {
			steps = append(steps, choice(s))
		}
	}
	return steps
}

// Replay runs one schedule and returns what happened in it.
func Replay(t *testing.T, p Plan, schedule string) (*History, Finding) {
	t.Helper()
	r := p.run(t, split(schedule))
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.history, r.finding
}

// result is what a schedule led to.
type result struct {
	options []choice // what can happen next; nothing when all is over
	state   string   // equal states have equal futures
	history *History
	finding Finding
	err     error // the schedule can't be followed
}

// run runs one schedule. If nothing can happen any more after it, it lets somebody new try the lock. Otherwise it looks
// whether somebody who is done has left anything running.
func (p Plan) run(t *testing.T, schedule []choice) (r result) {
	synctest.Test(t, func(t *testing.T) {
		x := newExplorer(p, newWorld(t))
		defer func() { r.history = x.end() }()
		x.start()
		if r.err = x.follow(schedule); r.err != nil {
			return
		}
		r.options = x.options()
		r.state = x.state()
		if r.finding = CheckLeases(x.w.History()); r.finding.Verdict != Holds {
			return
		}
		if len(r.options) == 0 {
			x.finish()
		} else {
			x.aftermath()
		}
		r.finding = CheckLeases(x.w.History())
	})
	return r
}
