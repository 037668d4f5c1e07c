package sim

import (
	"bufio"
	"bytes"
	"io"
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
	w    *World
	name string
	mr   *miniredis.Miniredis

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

// Set puts a value there behind everybody's back, without a TTL if ttl is 0.
func (n *Node) Set(key, value string, ttl time.Duration) {
	_ = n.mr.Set(key, value)
	n.mr.SetTTL(key, ttl)
}

// Delete removes a key behind everybody's back, as an operator or an eviction does.
func (n *Node) Delete(key string) {
	n.mr.Del(key)
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
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

// Restart brings the node back, with its data or without. Scripts are forgotten.
func (n *Node) Restart(withData bool) {
	text := "restarts with its data"
	if !withData {
		text = "restarts empty"
		n.mr.FlushAll()
	}
	n.set(text, func() {
		n.down, n.hung = false, false
		n.w.breakLinks(n)
		if !withData {
			clear(n.owners)
		}
	})
}

// JumpClock moves the node's clock forward, or back: every TTL shrinks or grows by d.
func (n *Node) JumpClock(d time.Duration) {
	for _, key := range n.mr.Keys() {
		switch ttl := n.mr.TTL(key); {
		case ttl == 0:
		case ttl <= d:
			n.mr.Del(key)
		default:
			n.mr.SetTTL(key, ttl-d)
		}
	}
	n.set("its clock jumps by "+d.String(), func() {
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
	loseIt bool // the reply never arrives: the connection breaks instead
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
	valueBefore, before := n.Value(key), n.owners[key]
	reply := n.dispatch(r)
	if !wire.Setup(r.words) {
		after := n.ownerAfter(client.name, key, before, valueBefore)
		text, answer := n.w.describe(client.name, r.words), n.w.describeReply(client.name, reply)
		if r.loseIt {
			answer += ", lost"
		}
		n.w.record(Event{
			Kind: Command, Client: client.name, Node: n.name, Key: key, Text: text, Reply: answer,
			Before: before.client, After: after.client, TTL: n.TTL(key),
		})
	}
	if r.loseIt {
		r.conn.fail(io.EOF)
		return
	}
	r.conn.deliver(reply)
}

func (n *Node) dispatch(r *request) []byte {
	if n.refusal != "" && !wire.Setup(r.words) {
		return []byte("-" + n.refusal + "\r\n")
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
	if after.client == "" || n.Value(key) != valueBefore {
		after.client = client
	}
	if ttl != Forever {
		after.deadline = n.w.Now() + ttl
	}
	n.owners[key] = after
	return after
}

// due lists the keys whose TTL has ended, in the order in which that happened.
func (n *Node) due(now time.Duration) []string {
	var keys []string
	for key, o := range n.owners {
		if o.deadline != Forever && o.deadline <= now {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		if d := n.owners[a].deadline - n.owners[b].deadline; d != 0 {
			return int(d)
		}
		return strings.Compare(a, b)
	})
	return keys
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
	for _, word := range words {
		w.label(client, word) // a token belongs to whoever sends it first
	}
	name := wire.Name(words)
	switch {
	case name != strings.ToUpper(words[0]), len(words) < 3: // a named script, or no arguments
		return name
	case name == "SET" || name == "SETNX":
		return strings.Join(append([]string{name}, words[3:]...), " ")
	}
	return strings.ToUpper(name) + " " + strings.Join(words[2:], " ")
}

// describeReply writes a reply the way a timeline shows it.
func (w *World) describeReply(client string, reply []byte) string {
	r := bufio.NewReader(bytes.NewReader(reply))
	line, _ := r.ReadString('\n')
	kind, text := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '$':
		size, _ := strconv.Atoi(text)
		if size < 0 {
			return "nil"
		}
		body := make([]byte, size)
		_, _ = io.ReadFull(r, body)
		return w.label(client, string(body))
	case '_':
		return "nil"
	case '*':
		return text + " values"
	}
	return text
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
