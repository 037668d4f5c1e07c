package sim

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"example.com/redislock/internal/wire"
)

// Node is one embedded Redis server. Its TTLs run on the world's clock.
type Node struct {
	w     *World
	name  string
	index int
	mr    *miniredis.Miniredis

	owners  map[string]owner // who created each key
	refusal string           // answer every command with this error
	down    bool             // connections are refused
	hung    bool             // requests wait in backlog
	backlog []*request
}

// owner is the client that created a key, and when the key's TTL ends.
type owner struct {
	client   string
	deadline time.Duration // Forever if the key has no TTL
}

// Node adds a server to the world.
func (w *World) Node(name string) *Node {
	n := &Node{w: w, name: name, mr: miniredis.NewMiniRedis(), owners: map[string]owner{}}
	n.mr.ClockTTL(true)
	c, err := n.mr.Dial() // starts it; requests then go straight to its dispatcher
	if err != nil {
		w.t.Fatal(err)
	}
	_ = c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	n.index = len(w.nodes)
	w.nodes = append(w.nodes, n)
	return n
}

// Value returns what a key holds, "" if it does not exist. It asks the server, not a client.
func (n *Node) Value(key string) string {
	v, _ := n.mr.Get(key)
	return v
}

// TTL returns how long a key has left: Forever if it has no TTL, 0 if it does not exist.
func (n *Node) TTL(key string) time.Duration {
	if !n.mr.Exists(key) {
		return 0
	}
	if ttl := n.mr.TTL(key); ttl > 0 {
		return ttl
	}
	return Forever
}

// What a fault event says of a node, as far as the checker looks at it.
const (
	isSet         = "set"
	restartsEmpty = "restarts empty"
	failsOver     = "dies, and its empty replica is promoted"
)

// stranger owns what was put at a node behind everybody's back.
const stranger = "stranger"

// Set puts a value there behind everybody's back, without a TTL if ttl is 0. If the value is a client's token, the key is
// that client's, otherwise a stranger's.
func (n *Node) Set(key, value string, ttl time.Duration) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.w.expireDue()
	n.mr.Del(key)
	_ = n.mr.Set(key, value)
	after := owner{client: stranger, deadline: Forever}
	if label, known := n.w.labels[value]; known {
		after.client, _, _ = strings.Cut(label, "'s token")
	}
	if ttl > 0 {
		n.mr.SetTTL(key, ttl)
		after.deadline = n.w.Now() + ttl
	}
	before := n.owners[key]
	n.owners[key] = after
	n.w.record(Event{
		Kind: Fault, Node: n.name, Key: key, Text: isSet, Before: before.client, After: after.client, TTL: n.TTL(key),
	})
}

// Delete removes a key behind everybody's back, as an operator or an eviction does.
func (n *Node) Delete(key string) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.w.expireDue()
	n.mr.Del(key)
	before := n.owners[key].client
	delete(n.owners, key)
	n.w.record(Event{Kind: Expire, Node: n.name, Key: key, Before: before, Text: "removed"})
}

// Refuse makes the node answer every command with an error such as "LOADING …", until Accept.
func (n *Node) Refuse(message string) { n.set("refuses: "+message, func() { n.refusal = message }) }

// Accept ends Refuse.
func (n *Node) Accept() { n.set("accepts again", func() { n.refusal = "" }) }

// Hang stops the node: it takes connections and requests but answers nothing until Resume. Then it executes
// everything that has arrived meanwhile, also what nobody waits for any more.
func (n *Node) Hang() { n.set("hangs", func() { n.hung = true }) }

// Resume ends Hang.
func (n *Node) Resume() {
	n.set("goes on", func() {
		n.hung = false
		waiting := n.backlog
		n.backlog = nil
		for _, r := range waiting {
			n.arrive(r)
		}
	})
}

// Crash kills the node: connections break, and new ones are refused until Restart.
func (n *Node) Crash() {
	n.set("dies", func() {
		n.down, n.hung, n.backlog = true, false, nil
		n.w.breakLinks(n)
	})
}

// Restart ends the node, if it is up, and brings it back, with its data or without. Scripts are forgotten, and so is
// what had arrived while it hung.
func (n *Node) Restart(withData bool) {
	text := "restarts with its data"
	if !withData {
		text = restartsEmpty
	}
	n.replace(text, withData)
}

// FailOver ends the node and puts its replica in its place, which has seen none of its keys: replication is asynchronous, and
// nothing had arrived when the node died. Clients reach the replica as they reached the node, through a Sentinel for instance.
func (n *Node) FailOver() { n.replace(failsOver, false) }

func (n *Node) replace(text string, withData bool) {
	n.set(text, func() {
		n.down, n.hung, n.backlog = false, false, nil
		n.w.breakLinks(n)
		n.mr.Server().Dispatch(server.NewPeer(bufio.NewWriter(io.Discard)), []string{"SCRIPT", "FLUSH"})
		if !withData {
			n.mr.FlushAll()
			clear(n.owners)
		}
	})
}

// JumpClock moves the node's clock forward, or back: every TTL shrinks or grows by d.
func (n *Node) JumpClock(d time.Duration) {
	n.set("clock jumps by "+d.String(), func() {
		for _, key := range n.mr.Keys() {
			switch ttl := n.mr.TTL(key); {
			case ttl == 0:
			case ttl <= d:
				n.mr.Del(key)
			default:
				n.mr.SetTTL(key, ttl-d)
			}
		}
		for key, o := range n.owners {
			if o.deadline != Forever {
				o.deadline = max(o.deadline-d, n.w.Now())
				n.owners[key] = o
			}
		}
	})
}

func (n *Node) set(what string, change func()) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.w.record(Event{Kind: Fault, Node: n.name, Text: what})
	change()
}

// request is one command on its way from a client to a node.
type request struct {
	client *Client
	conn   *conn // nil for a step that is no command, see Work
	words  []string
	sent   time.Duration // exploration: when it came to the gate
	late   time.Duration // exploration: how long it stood there
	loseIt bool          // the reply never arrives: the connection breaks instead
}

// arrive hands a request to the node. The world's lock is held.
func (n *Node) arrive(r *request) {
	switch {
	case n.down:
		r.conn.fail(io.EOF)
	case n.hung:
		n.backlog = append(n.backlog, r)
	default:
		n.execute(r)
	}
}

// execute runs a command, writes it down, and sends the reply on its way.
func (n *Node) execute(r *request) {
	client, key := r.client, keyOf(r.words)
	n.w.expireDue()
	valueBefore, before := n.content(key), n.owners[key]
	reply := n.dispatch(r)
	if !wire.Setup(r.words) {
		after := n.ownerAfter(client.name, key, before, valueBefore)
		text, answer := n.w.describe(client.name, r.words), n.w.describeReply(client.name, reply)
		if r.loseIt {
			answer += ", lost"
		}
		n.w.record(Event{
			Kind: Command, Client: client.name, Node: n.name, Key: key, Text: text, Reply: answer,
			Before: before.client, After: after.client, TTL: n.TTL(key), Late: r.late,
		})
	}
	if r.loseIt {
		r.conn.fail(io.EOF)
		return
	}
	r.conn.deliver(reply)
}

// waiting are commands whose answer comes later than the call. There is nobody in this world to bring it.
var waiting = wire.Named("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR", "BLPOP", "BRPOP", "BLMOVE", "BLMPOP",
	"BRPOPLPUSH", "BZPOPMIN", "BZPOPMAX", "BZMPOP", "XREAD", "XREADGROUP")

func (n *Node) dispatch(r *request) []byte {
	switch {
	case n.refusal != "" && !wire.Setup(r.words):
		return []byte("-" + n.refusal + "\r\n")
	case waiting(r.words):
		return []byte("-ERR a node in virtual time knows no " + wire.Name(r.words) + "\r\n")
	}
	r.conn.out.Reset()
	n.mr.Server().Dispatch(r.conn.peer, r.words)
	r.conn.peer.Flush()
	return bytes.Clone(r.conn.out.Bytes())
}

// ownerAfter says who owns a key after a client's command: whoever created it, or put another value there.
func (n *Node) ownerAfter(client, key string, before owner, valueBefore string) owner {
	ttl := n.TTL(key)
	if ttl == 0 {
		delete(n.owners, key)
		return owner{}
	}
	after := owner{client: before.client, deadline: Forever}
	if after.client == "" || n.content(key) != valueBefore {
		after.client = client
	}
	if ttl != Forever {
		after.deadline = n.w.Now() + ttl
	}
	n.owners[key] = after
	return after
}

// content returns all that a key holds, for comparison.
func (n *Node) content(key string) string {
	if n.mr.Type(key) != "hash" {
		return n.Value(key)
	}
	fields, _ := n.mr.HKeys(key)
	for i, f := range fields {
		fields[i] = f + ": " + n.mr.HGet(key, f)
	}
	return strings.Join(fields, ", ")
}

// expireDue forgets the owners of keys whose TTL has ended, and returns what happened, by key.
func (n *Node) expireDue(now time.Duration) []Event {
	var ended []Event
	for _, key := range slices.Sorted(maps.Keys(n.owners)) {
		if o := n.owners[key]; o.deadline != Forever && o.deadline <= now {
			delete(n.owners, key)
			ended = append(ended, Event{
				At: o.deadline, Kind: Expire, Node: n.name, Key: key, Before: o.client, Text: "TTL ends",
			})
		}
	}
	return ended
}

// keyOf returns the first key of a command.
func keyOf(words []string) string {
	i := 1
	if strings.EqualFold(words[0], "EVAL") || strings.EqualFold(words[0], "EVALSHA") {
		i = 3
	}
	if len(words) <= i {
		return ""
	}
	return words[i]
}

// describe writes a command the way a timeline shows it: without the key, which stands elsewhere, and without
// the value, which is the client's token.
func (w *World) describe(client string, words []string) string {
	shown := make([]string, len(words))
	for i, word := range words {
		shown[i] = w.label(client, word) // a token belongs to whoever sends it first
	}
	name := wire.Name(words)
	switch {
	case name != strings.ToUpper(words[0]), len(words) < 3: // a named script, or no arguments
		return name
	case name == "SET" || name == "SETNX":
		return strings.Join(append([]string{name}, shown[3:]...), " ")
	}
	return strings.Join(append([]string{name}, shown[2:]...), " ")
}

// describeReply writes a reply the way a timeline shows it.
func (w *World) describeReply(client string, reply []byte) string {
	return w.label(client, replyText(bufio.NewReader(bytes.NewReader(reply))))
}

func replyText(r *bufio.Reader) string {
	line, _ := r.ReadString('\n')
	if len(line) < 3 {
		return ""
	}
	kind, text := line[0], strings.TrimSpace(line[1:])
	size, _ := strconv.Atoi(text)
	switch {
	case kind == '_', strings.IndexByte("$*", kind) >= 0 && size < 0:
		return "nil"
	case kind == '$':
		body := make([]byte, size+2)
		_, _ = io.ReadFull(r, body)
		return string(body[:size])
	case strings.IndexByte("*~%>", kind) < 0:
		return text
	}
	if kind == '%' { // a map has a key and a value for each entry
		size *= 2
	}
	items := make([]string, size)
	for i := range items {
		items[i] = replyText(r)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// breakLinks breaks every connection to a node.
func (w *World) breakLinks(n *Node) {
	for _, c := range w.clients {
		for cn := range c.conns {
			if cn.node == n {
				cn.fail(io.EOF)
			}
		}
	}
}

func newPeer(cn *conn) *server.Peer { return server.NewPeer(bufio.NewWriter(&cn.out)) }
