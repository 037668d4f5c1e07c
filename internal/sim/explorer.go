package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"example.com/redislock/internal/wire"
)

// explorer drives one schedule.
type explorer struct {
	plan      Plan
	w         *World
	processes []Process
	arrived   chan struct{} // somebody has come to the gate, or is done

	mu                      sync.Mutex
	gate                    []*parked // who stands at the gate
	lost                    []*parked // renewals beyond those of the plan: they stay in the network
	moved                   map[*Client]bool
	done                    map[*Client]bool
	ended                   bool // the last step was the end of somebody
	crashes                 int
	losses                  int
	renewed                 int
	outages, empties, jumps int
}

// parked is a request that stands at the gate.
type parked struct {
	r     *request
	leave chan struct{}
}

func newExplorer(p Plan, w *World) *explorer {
	x := &explorer{plan: p, w: w, moved: map[*Client]bool{}, done: map[*Client]bool{}, arrived: make(chan struct{}, 1)}
	w.gate = x.park
	return x
}

// stopAtGate stops a request at the gate, if the world has one.
func (w *World) stopAtGate(r *request) {
	w.mu.Lock()
	gate := w.gate
	w.mu.Unlock()
	if gate != nil {
		gate(r)
	}
}

// park stops a request at the gate until the explorer lets it pass. It runs on the client's goroutine.
func (x *explorer) park(r *request) {
	if r.conn != nil && r.conn.broken() {
		return // there is no way to the node, and the client notices at once
	}
	p := &parked{r: r, leave: make(chan struct{})}
	r.sent = x.w.Now()
	if x.admit(p) {
		x.arrive()
	}
	<-p.leave
	r.late = x.w.Now() - r.sent
	r.client.pass() // it may have crashed here
}

// admit says whether a request will ever get through. A renewal is what prolongs a key, sent by somebody who has entered.
// Those beyond the plan stay in the network. Who sends one when it has left breaks a promise by that alone.
func (x *explorer) admit(p *parked) bool {
	c := p.r.client
	inside, before := x.w.inside(c)
	renewal := wire.Extends(p.r.words) && before
	if renewal && !inside {
		x.w.Record(Event{Kind: Call, Client: c.name, Key: keyOf(p.r.words), Text: renews})
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if renewal {
		if x.renewed == x.plan.Renewals {
			x.lost = append(x.lost, p)
			return false
		}
		x.renewed++
	}
	x.gate = append(x.gate, p)
	return true
}

// inside reports whether a client is inside, and whether it has ever been.
func (w *World) inside(c *Client) (now, ever bool) {
	depth := 0
	for _, e := range w.History().Events {
		switch {
		case e.Client != c.name:
		case e.Kind == Enter:
			depth, ever = depth+1, true
		case e.Kind == Leave:
			depth--
		}
	}
	return depth > 0, ever
}

func (x *explorer) arrive() {
	select {
	case x.arrived <- struct{}{}:
	default:
	}
}

func (x *explorer) start() {
	x.processes = x.plan.Setup(x.w)
	for _, p := range x.processes {
		p.Client.Do(func() {
			p.Run()
			x.mu.Lock()
			x.done[p.Client] = true
			x.mu.Unlock()
			x.arrive()
		})
	}
	synctest.Wait()
}

// follow lets one choice after the other happen.
func (x *explorer) follow(schedule []choice) error {
	for i, c := range schedule {
		if options := x.options(); !slices.Contains(options, c) {
			return fmt.Errorf("schedule %s: step %d can't be %q, only one of %q", join(schedule), i+1, c, options)
		}
		before := x.countDone()
		x.take(c)
		x.ended = x.countDone() > before
	}
	return nil
}

func (x *explorer) countDone() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.done)
}

// standing lists a client's requests at the gate. Their order and their names don't depend on which of its
// goroutines came first.
func (x *explorer) standing(c *Client) (all []*parked, names []choice) {
	for _, p := range x.gate {
		if p.r.client == c {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b *parked) int {
		return cmp.Or(cmp.Compare(a.r.nodeNumber(), b.r.nodeNumber()),
			strings.Compare(wire.Name(a.r.words), wire.Name(b.r.words)), strings.Compare(keyOf(a.r.words), keyOf(b.r.words)))
	})
	for _, p := range all {
		name := choice(c.name)
		if n := p.r.nodeNumber(); n > 0 && len(x.w.nodes) > 1 {
			name += choice(strconv.Itoa(n))
		}
		for slices.Contains(names, name) {
			name += "'"
		}
		names = append(names, name)
	}
	return all, names
}

// nodeNumber counts the nodes from 1. Work happens at none, which is 0.
func (r *request) nodeNumber() int {
	if r.conn == nil {
		return 0
	}
	return slices.Index(r.client.w.nodes, r.conn.node) + 1
}

// options lists what can happen next.
func (x *explorer) options() []choice {
	x.mu.Lock()
	defer x.mu.Unlock()
	var move, lose, crash []choice
	fresh := false
	for _, p := range x.processes {
		c := p.Client
		all, names := x.standing(c)
		switch {
		case c.dead:
			continue
		case len(all) == 0:
			continue
		case !x.moved[c] && fresh && !x.plan.plain:
			continue // it is like the other one that has not moved either, so it need not be the next
		}
		fresh = fresh || !x.moved[c]
		move = append(move, names...)
		for i, name := range names {
			if all[i].r.conn != nil && x.losses < x.plan.Losses {
				lose = append(lose, name+"~")
			}
		}
		if x.crashes < x.plan.Crashes {
			crash = append(crash, choice(c.name+"!"))
		}
	}
	if x.nextExpiry() > 0 {
		move = append(move, tick)
	}
	if x.someoneWaits() || x.someoneRenews() && x.nextExpiry() > 0 {
		move = append(move, wait)
	}
	return slices.Concat(move, lose, crash, x.nodeOptions())
}

// someoneWaits reports whether a client has nothing at the gate, and is not done: it will come.
func (x *explorer) someoneWaits() bool {
	return slices.ContainsFunc(x.processes, func(p Process) bool {
		return !p.Client.dead && !x.done[p.Client] && !x.stands(p.Client, false)
	})
}

// someoneRenews reports whether a client is at work, and may renew its lease meanwhile.
func (x *explorer) someoneRenews() bool {
	return x.renewed < x.plan.Renewals && slices.ContainsFunc(x.processes, func(p Process) bool {
		return !p.Client.dead && x.stands(p.Client, true)
	})
}

// stands reports whether a client stands at the gate: at all, or with its work.
func (x *explorer) stands(c *Client, work bool) bool {
	return slices.ContainsFunc(x.gate, func(p *parked) bool { return p.r.client == c && (!work || p.r.conn == nil) })
}

// nextExpiry returns when the next TTL ends, 0 if there is none.
func (x *explorer) nextExpiry() time.Duration {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
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
	case x.takeNode(c):
	case c == tick:
		time.Sleep(x.nextExpiry() - x.w.Now())
	case c == wait:
		x.wait()
	default:
		x.letGo(c)
	}
	synctest.Wait()
}

// wait lets time pass until somebody arrives. A client at work need not: then the next TTL ends the wait.
func (x *explorer) wait() {
	select {
	case <-x.arrived: // that was before
	default:
	}
	x.mu.Lock()
	var enough <-chan time.Time
	if !x.someoneWaits() {
		enough = time.After(x.nextExpiry() - x.w.Now())
	}
	x.mu.Unlock()
	select {
	case <-x.arrived:
	case <-enough:
	}
}

// aftermath lets time pass if the last step ended a client's process, to see that it has left no renewal running. So whoever
// is done has no future.
func (x *explorer) aftermath() {
	if x.plan.Renewals > 0 && x.ended {
		time.Sleep(x.plan.TTL)
	}
}

// letGo opens the gate for one request, or lets its client crash there.
func (x *explorer) letGo(c choice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, process := range x.processes {
		client := process.Client
		all, names := x.standing(client)
		if len(all) > 0 && string(c) == client.name+"!" {
			x.crashes++
			client.Crash()
			return
		}
		for i, name := range names {
			if name != choice(strings.TrimSuffix(string(c), "~")) {
				continue
			}
			if name != c {
				x.losses++
				all[i].r.loseIt = true
			}
			x.moved[client] = true
			x.gate = slices.DeleteFunc(x.gate, func(p *parked) bool { return p == all[i] })
			close(all[i].leave)
			return
		}
	}
}

// finish lets every TTL end, and somebody new take the lock.
func (x *explorer) finish() {
	x.w.mu.Lock()
	x.w.gate = nil
	x.w.mu.Unlock()
	time.Sleep(2 * x.plan.TTL)
	if x.plan.Final != nil {
		x.plan.Final(x.w)
	}
}

// end lets everybody who still stands at the gate run into the end of the world.
func (x *explorer) end() *History {
	x.w.mu.Lock()
	x.w.gate, x.w.ended = nil, true
	x.w.mu.Unlock()
	x.mu.Lock()
	for _, p := range slices.Concat(x.gate, x.lost) {
		close(p.leave)
	}
	x.gate, x.lost = nil, nil
	x.mu.Unlock()
	return x.w.end()
}

// Work is a step of an exploration in which the client does what the lock is for. Others may go first, time may
// pass, and the lease may be renewed meanwhile. In a story it does nothing.
func (c *Client) Work() { c.w.stopAtGate(&request{client: c, words: []string{"work"}}) }
