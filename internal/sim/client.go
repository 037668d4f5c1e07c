package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"example.com/redislock/internal/wire"
)

// go-redis logs every failed dial. In a world where nodes die on purpose that is noise.
func init() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Client is one process that uses locks: a go-redis client of each node it uses, what the story does to it, and a
// goroutine on which it does what the story tells it.
type Client struct {
	w    *World
	name string
	rdbs []*redis.Client // one for each node
	last chan struct{}   // closed when the last thing it was told to do is done

	conns  map[*conn]bool
	rules  []*rule
	halted bool
	held   []chan struct{} // those who wait for the client to go on, in the order in which they came
	dead   bool
	cut    bool // new connections fail
}

// Client adds a client of the given node. Its go-redis options are the defaults, but for a pause of exactly
// 100 ms before go-redis resends: the default is random, and a story has to be the same every time.
func (w *World) Client(name string, n *Node, opts ...func(*redis.Options)) *Client {
	c := &Client{w: w, name: name, conns: map[*conn]bool{}}
	w.mu.Lock()
	w.clients = append(w.clients, c)
	w.mu.Unlock()
	c.Connect(n, opts...)
	return c
}

// Connect gives the client, which is one process, a go-redis client of one more node.
func (c *Client) Connect(n *Node, opts ...func(*redis.Options)) redis.UniversalClient {
	o := &redis.Options{
		Addr:            fmt.Sprintf("127.0.0.1:%d", 6379+n.index), // never dialled; a name would be looked up outside the bubble
		MinRetryBackoff: 100 * time.Millisecond,
		MaxRetryBackoff: 100 * time.Millisecond,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c.pass()
			if ctx.Err() != nil {
				return nil, ctx.Err() // it stood still for too long to dial
			}
			return c.dial(n)
		},
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for _, opt := range opts {
		opt(o)
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.w.gate != nil {
		o.PoolSize = 100 // each request at the gate has a connection; the default depends on the machine
	}
	rdb := redis.NewClient(o)
	c.rdbs = append(c.rdbs, rdb)
	return rdb
}

func (c *Client) dial(n *Node) (net.Conn, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if n.down || c.cut || c.w.ended {
		return nil, &net.OpError{Op: "dial", Net: "sim", Err: errors.New("connection refused")}
	}
	cn := newConn(c, n)
	c.conns[cn] = true
	return cn, nil
}

// Name of the client.
func (c *Client) Name() string { return c.name }

// Redis is the client's go-redis client of its first node.
func (c *Client) Redis() redis.UniversalClient { return c.rdbs[0] }

// Do lets the client run f after what it was told before, and returns when nothing more can happen at
// this instant: f is done, or waits for time to pass, or the client was stopped in the middle of it. A client that
// stands still does not even begin.
func (c *Client) Do(f func()) {
	c.Then(f)
	synctest.Wait()
	if len(c.w.nodes) > 1 {
		time.Sleep(settled)
		synctest.Wait()
	}
}

// Then is Do for callers that run on a client's side themselves, such as a callback of its lock: it does not wait.
func (c *Client) Then(f func()) {
	done := make(chan struct{})
	c.w.mu.Lock()
	before := c.last
	c.last = done
	c.w.mu.Unlock()
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		c.pass()
		f()
	}()
}

func (c *Client) wait() {
	c.w.mu.Lock()
	last := c.last
	c.w.mu.Unlock()
	if last != nil {
		<-last
	}
}

// action is what a rule does to a request.
type action int

const (
	stopBefore action = iota
	stopAfter
	crashBefore
	crashAfter
	loseRequest
	loseReply
	deliverLate
)

// rule waits for requests that match and then happens, a number of times.
type rule struct {
	act   action
	match wire.Match
	left  int
	late  *Late
}

func (c *Client) on(act action, m wire.Match, times int) *rule {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	r := &rule{act: act, match: m, left: times, late: &Late{c: c}}
	c.rules = append(c.rules, r)
	return r
}

// StopBefore stops the client right before it sends the next matching request, as if its process were paused there. It
// goes on with GoOn.
func (c *Client) StopBefore(m wire.Match) { c.on(stopBefore, m, 1) }

// StopAfter stops the client right after a matching request was executed, before it learns the answer.
func (c *Client) StopAfter(m wire.Match) { c.on(stopAfter, m, 1) }

// CrashBefore kills the client right before it sends the next matching request.
func (c *Client) CrashBefore(m wire.Match) { c.on(crashBefore, m, 1) }

// CrashAfter kills the client right after a matching request was executed, before it learns the answer.
func (c *Client) CrashAfter(m wire.Match) { c.on(crashAfter, m, 1) }

// LoseRequest breaks the connection under the next matching requests: they never reach the node.
func (c *Client) LoseRequest(m wire.Match, times int) { c.on(loseRequest, m, times) }

// LoseReply lets the next matching requests be executed and breaks the connection before the reply arrives.
func (c *Client) LoseReply(m wire.Match, times int) { c.on(loseReply, m, times) }

// DeliverLate keeps the next matching request in the network until Late.Deliver.
func (c *Client) DeliverLate(m wire.Match) *Late { return c.on(deliverLate, m, 1).late }

// Late is a request that is still on its way.
type Late struct {
	c       *Client
	r       *request
	arrived bool
}

// Caught reports whether there has been such a request.
func (l *Late) Caught() bool {
	l.c.w.mu.Lock()
	defer l.c.w.mu.Unlock()
	return l.r != nil
}

// Deliver lets the request reach its node now, whether or not anybody still waits for the answer. It arrives once.
func (l *Late) Deliver() {
	l.c.w.t.Helper()
	l.c.w.mu.Lock()
	ready := l.r != nil && !l.arrived
	if ready {
		l.arrived = true
		l.c.note("late " + wire.Name(l.r.words) + " arrives")
		l.r.conn.node.arrive(l.r)
	}
	l.c.w.mu.Unlock()
	if !ready {
		l.c.w.t.Fatalf("%s has no request on its way that could be delivered late", l.c.name)
	}
	synctest.Wait()
}

// What a fault event says of a client. The checker knows these words.
const (
	crashes = "crashes"
	freezes = "freezes"
	thaws   = "thaws"
	goesOn  = "goes on"
)

// GoOn ends a stop. A client that was not stopped, or is dead, takes no notice.
func (c *Client) GoOn() { c.unhalt(goesOn) }

func (c *Client) unhalt(text string) {
	c.w.mu.Lock()
	var held []chan struct{}
	if c.halted && !c.dead {
		c.note(text)
		c.halted, held, c.held = false, c.held, nil
	}
	c.w.mu.Unlock()
	for _, h := range held { // one after the other, so that what they do has an order
		close(h)
		synctest.Wait()
	}
	synctest.Wait()
}

// Crash kills the client: nothing it does reaches a node any more. What is there stays there.
func (c *Client) Crash() {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.crash()
}

func (c *Client) crash() {
	c.note(crashes)
	c.dead = true
	c.halt()
	c.cutAll()
}

// Freeze stops the client wherever it is, as SIGSTOP, a long garbage collection or a suspended machine do. The
// world can't stop its timers: they fire late in a real process, on time here. What they send meanwhile leaves
// at the thaw, unless its dial or write timeout has passed by then.
func (c *Client) Freeze() {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.note(freezes)
	c.halt()
}

// Thaw ends Freeze, as GoOn ends a stop.
func (c *Client) Thaw() { c.unhalt(thaws) }

// Cut breaks the client's connections and lets no new one through, until Heal.
func (c *Client) Cut() {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.note("is cut off")
	c.cutAll()
}

// Heal ends Cut.
func (c *Client) Heal() {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.note("is connected again")
	c.cut = false
}

func (c *Client) cutAll() {
	c.cut = true
	for cn := range c.conns {
		cn.fail(io.EOF)
	}
}

func (c *Client) halt() {
	c.halted = true
}

// resume lets everybody run into the end of the world.
func (c *Client) resume() {
	for _, h := range c.held {
		close(h)
	}
	c.halted, c.held = false, nil
}

func (c *Client) note(text string) { c.w.record(Event{Kind: Fault, Client: c.name, Text: text}) }

// pass returns when the client may run.
func (c *Client) pass() {
	for {
		c.w.mu.Lock()
		if !c.halted {
			c.w.mu.Unlock()
			return
		}
		h := make(chan struct{})
		c.held = append(c.held, h)
		c.w.mu.Unlock()
		<-h
	}
}

// Requests that a client sends to several nodes at one instant would arrive in any order, and a history in a different one on
// every run. So each node is a little farther away than the one before, by primes: sums of a few of them never meet.
var distance = []time.Duration{5, 31, 211, 1511, 10007} // nanoseconds

// settled is when all that a client does at one instant is done, at all nodes.
const settled = 100 * time.Microsecond

// fires uses up a rule for this request, if there is one.
func (c *Client) fires(act action, words []string) *rule {
	for _, r := range c.rules {
		if r.act == act && r.left > 0 && r.match(words) {
			r.left--
			return r
		}
	}
	return nil
}

// send carries a request from the client to its node, through all that the story has put in its way. It runs on
// the client's goroutine, inside go-redis' write. What it returns is that write's error.
func (c *Client) send(r *request) error {
	if !wire.Setup(r.words) {
		c.pass()
		if r.conn.overdue() {
			return os.ErrDeadlineExceeded // it stood still for too long to write this
		}
		c.haltOn(stopBefore, crashBefore, "before", r)
		c.pass()
		c.w.stopAtGate(r)
	}
	if c.w.gate == nil && len(c.w.nodes) > 1 {
		time.Sleep(distance[min(r.conn.node.index, len(distance)-1)])
	}
	if c.carry(r) {
		c.haltOn(stopAfter, crashAfter, "after", r)
	}
	c.pass()
	return nil
}

func (c *Client) haltOn(stop, crash action, where string, r *request) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if wire.Setup(r.words) || c.w.ended {
		return
	}
	if c.fires(stop, r.words) != nil {
		c.note("stops " + where + " " + wire.Name(r.words))
		c.halt()
	}
	if c.fires(crash, r.words) != nil {
		c.crash()
	}
}

// carry reports whether the request reached its node.
func (c *Client) carry(r *request) bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if r.conn.err != nil || c.w.ended {
		return false
	}
	if !wire.Setup(r.words) {
		if c.fires(loseRequest, r.words) != nil {
			c.note(wire.Name(r.words) + " is lost")
			r.conn.fail(io.EOF)
			return false
		}
		if rule := c.fires(deliverLate, r.words); rule != nil {
			c.note(wire.Name(r.words) + " is still on its way")
			rule.late.r = r
			return false
		}
		r.loseIt = r.loseIt || c.fires(loseReply, r.words) != nil
	}
	r.conn.node.arrive(r)
	return true
}
