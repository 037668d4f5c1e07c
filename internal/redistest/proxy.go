package redistest

import (
	"bufio"
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/redislock/internal/wire"
)

// Proxy is a piece of network between clients and a server that breaks on request. It reads what passes
// by, so a fault names the request it is meant for.
//
// A fault hits the next matching requests over all connections, in the order in which the proxy reads
// them. If several faults match a request, the one that was ordered first takes it. The set-up of a
// connection (wire.Setup) is passed on untouched and uncounted, except by Cut.
//
// Requests and replies must alternate as in plain RESP, pipelines and transactions included. Pub/sub,
// MONITOR and client tracking are outside of that, and the proxy breaks such a connection. A match is
// called by one goroutine at a time and must not call the proxy.
type Proxy struct {
	t        T
	target   string
	listener net.Listener
	patience time.Duration
	ctx      context.Context // ends with the proxy
	end      context.CancelFunc
	running  sync.WaitGroup

	mu      sync.Mutex
	cut     bool
	clients map[net.Conn]bool
	seen    []string
	faults  []*fault
	delays  []*delay
}

type kind int

const (
	pass kind = iota
	loseReply
	loseRequest
	holdReply
	holdRequest
	replyError
)

type fault struct {
	kind  kind
	match wire.Match
	left  int
	line  string // of a replyError
	held  *Held  // of a hold
}

type delay struct {
	match wire.Match
	time  time.Duration
}

// exchange is a request and its reply.
type exchange struct {
	fault
	delay time.Duration
	conn  *conn
	done  chan struct{} // closed once the reply has been dealt with
}

// NewProxy starts a proxy to the server at target. It dials the server anew for each connection, so it
// goes on working over a Restart. It ends with the test.
func NewProxy(t T, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", loopback(0))
	if err != nil {
		t.Fatalf("redistest: proxy: %v", err)
	}
	p := &Proxy{t: t, target: target, listener: l, patience: patience, clients: map[net.Conn]bool{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	t.Cleanup(func() {
		p.end()
		_ = l.Close()
		p.running.Wait()
	})
	return p
}

// Addr is the host and port at which clients reach the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Client is a go-redis client that goes through the proxy, with default options apart from those that
// opts changes. It is closed with the test. Note that by default it sends a command up to four times.
func (p *Proxy) Client(t T, opts ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{Addr: p.Addr()}
	for _, opt := range opts {
		opt(o)
	}
	return newClient(t, o)
}

// LoseReply lets the server execute the request, waits for its reply and then breaks the client's
// connection instead of passing it on. What the client has sent behind it on that connection is lost
// unexecuted.
func (p *Proxy) LoseReply(m wire.Match, times int) {
	p.add(&fault{kind: loseReply, match: m, left: times})
}

// LoseRequest breaks the client's connection instead of passing the request on. What came before on that
// connection is executed and answered first; what comes after is lost as well.
func (p *Proxy) LoseRequest(m wire.Match, times int) {
	p.add(&fault{kind: loseRequest, match: m, left: times})
}

// ReplyError answers the request with the error msg ("READONLY You can't write...") without passing it
// on. The connection stays.
func (p *Proxy) ReplyError(m wire.Match, msg string, times int) {
	p.add(&fault{kind: replyError, match: m, left: times, line: "-" + msg + "\r\n"})
}

// HoldRequest keeps the next matching request back, together with whatever the client sends behind it on
// that connection, until Deliver. The connection to the server stays for it: neither a client that
// gives up nor a Cut ends it, only the end of the server.
func (p *Proxy) HoldRequest(m wire.Match) *Held { return p.hold(holdRequest, m) }

// HoldReply lets the server execute the next matching request at once and keeps the reply back until
// Deliver. Requests behind it on that connection are executed, but their replies wait too.
func (p *Proxy) HoldReply(m wire.Match) *Held { return p.hold(holdReply, m) }

func (p *Proxy) hold(k kind, m wire.Match) *Held {
	h := &Held{proxy: p, caught: make(chan struct{}), release: make(chan struct{})}
	p.add(&fault{kind: k, match: m, left: 1, held: h})
	return h
}

func (p *Proxy) add(f *fault) {
	if f.left <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
}

// Delay delays the replies of all matching requests by d, until stop is called. It comes on top of other
// faults. The replies of one connection are in order, so in a pipeline the delays add up. Requests that
// are already on their way when stop is called keep their delay.
func (p *Proxy) Delay(m wire.Match, d time.Duration) (stop func()) {
	one := &delay{match: m, time: d}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delays = append(p.delays, one)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.delays = slices.DeleteFunc(p.delays, func(d *delay) bool { return d == one })
	}
}

// Cut breaks the connections of all clients, and from now on each new one as soon as it is made. What
// the proxy had read by then is still executed: it is the way back that is gone. Held requests stay held.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.clients {
		_ = c.Close()
	}
}

// Heal ends a Cut for new connections.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// Requests are the names (wire.Name) of all requests that have reached the proxy, in its order, whatever
// became of them. The set-up of connections is left out.
func (p *Proxy) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

// ResetRequests forgets the requests so far.
func (p *Proxy) ResetRequests() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = nil
}

// meet notes a request and decides what becomes of it.
func (p *Proxy) meet(words []string) *exchange {
	x := &exchange{done: make(chan struct{})}
	if wire.Setup(words) {
		return x
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, wire.Name(words))
	for _, d := range p.delays {
		if d.match(words) {
			x.delay += d.time
		}
	}
	i := slices.IndexFunc(p.faults, func(f *fault) bool { return f.match(words) })
	if i < 0 {
		return x
	}
	f := p.faults[i]
	x.fault = *f
	if f.left--; f.left == 0 {
		p.faults = slices.Delete(p.faults, i, i+1)
	}
	return x
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if p.ctx.Err() == nil {
				p.t.Errorf("redistest: proxy: %v", err)
			}
			return
		}
		if p.admit(client) {
			p.running.Go(func() { p.serve(client) })
		}
	}
}

func (p *Proxy) admit(client net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		_ = client.Close()
		return false
	}
	p.clients[client] = true
	return true
}

func (p *Proxy) serve(client net.Conn) {
	defer func() {
		_ = client.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.clients, client)
	}()
	server, err := new(net.Dialer).DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		return
	}
	c := &conn{proxy: p, client: client, server: server, queue: make(chan *exchange, 1024), closed: make(chan struct{})}
	stop := context.AfterFunc(p.ctx, c.close)
	defer stop()
	p.running.Go(c.replies)
	c.requests()
}

// conn is a client's connection and the one to the server that goes with it.
//
// One goroutine passes on requests, another one replies. When the client leaves, the server's side stays
// open until the last request has been answered: closing it earlier could keep the server from reading
// what has been sent.
type conn struct {
	proxy          *Proxy
	client, server net.Conn
	queue          chan *exchange // sent, not yet answered
	last           *exchange      // the newest one in the queue, for the requests' goroutine
	once           sync.Once
	closed         chan struct{}
}

func (c *conn) close() {
	c.once.Do(func() {
		close(c.closed)
		_ = c.client.Close()
		_ = c.server.Close()
	})
}

func (c *conn) requests() {
	defer c.close()
	r := bufio.NewReader(c.client)
	for {
		words, raw, err := wire.ReadRequest(r)
		if err != nil {
			break
		}
		if len(words) > 0 && !c.request(words, raw) { // a server ignores an empty request
			break
		}
	}
	c.await()
}

// request deals with one request and tells whether the connection goes on.
func (c *conn) request(words []string, raw []byte) bool {
	x := c.proxy.meet(words)
	x.conn = c
	switch x.kind {
	case loseRequest:
		return false
	case replyError:
		c.await() // earlier requests are answered first
		c.wait(x.delay)
		_, err := c.client.Write([]byte(x.line))
		return err == nil
	case holdRequest:
		if !x.held.keep(x) {
			return false
		}
	}
	c.last = x
	select {
	case c.queue <- x: // before the request, so that a reply always finds its exchange
	case <-c.closed:
		return false
	}
	_, err := c.server.Write(raw)
	return err == nil && x.kind != loseReply
}

func (c *conn) replies() {
	defer c.close()
	r := bufio.NewReader(c.server)
	for {
		raw, err := wire.ReadReply(r)
		if err != nil {
			return
		}
		var x *exchange
		select {
		case x = <-c.queue:
		default:
			return // nobody has asked for this
		}
		if x.kind == holdReply {
			x.held.keep(x)
		}
		c.wait(x.delay)
		if x.kind != loseReply {
			_, _ = c.client.Write(raw) // an error means that the client has left
		}
		close(x.done)
	}
}

// await waits until everything that was sent to the server has been answered, or can't be any more.
func (c *conn) await() {
	if c.last == nil {
		return
	}
	select {
	case <-c.last.done:
	case <-c.closed:
	}
}

func (c *conn) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.closed:
	}
}

// Held is a request or a reply that the proxy keeps back.
type Held struct {
	proxy    *Proxy
	exchange *exchange // set before caught is closed
	caught   chan struct{}
	release  chan struct{}
	once     sync.Once
}

// Caught is closed once a request has been kept back by HoldRequest, or has been executed and its reply
// kept back by HoldReply.
func (h *Held) Caught() <-chan struct{} { return h.caught }

// Deliver ends the hold and returns once the server has executed the request and the reply has been
// passed to the client, or dropped if the client has left. If nothing has been caught yet it waits for
// that. The test fails if nothing comes, or if the server ends before it has answered. Delivering twice
// is allowed.
func (h *Held) Deliver() {
	h.proxy.t.Helper()
	h.once.Do(func() { close(h.release) })
	late := time.After(h.proxy.patience)
	select {
	case <-h.caught:
	case <-late:
		h.proxy.t.Errorf("redistest: Deliver: nothing was caught within %v", h.proxy.patience)
		return
	}
	select {
	case <-h.exchange.done:
		return
	case <-h.exchange.conn.closed:
	case <-late:
	}
	select {
	case <-h.exchange.done: // both were true
	default:
		h.proxy.t.Errorf("redistest: Deliver: the server has not answered the request")
	}
}

// keep waits for Deliver. It returns false if the connection ended first.
func (h *Held) keep(x *exchange) bool {
	h.exchange = x
	close(h.caught)
	select {
	case <-h.release:
		return true
	case <-x.conn.closed:
		return false
	}
}
