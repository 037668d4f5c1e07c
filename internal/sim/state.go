package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// state describes all on which the future depends: the clock, what may still go wrong, what the nodes and resources hold,
// what the checker remembers, and for each client what it has seen and what it is about to send. The clients are
// alike, so their names are left out where nobody else has seen them, and so is the past of those that are done or dead:
// it has no future.
func (x *explorer) state() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	checker, _ := check(x.w.History(), true)
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	spent := []int{x.crashes, x.losses, x.renewed, x.outages, x.empties, x.jumps}
	least := ""
	for _, as := range x.namings() {
		if text := x.describeState(checker, as); least == "" || text < least {
			least = text
		}
	}
	return fmt.Sprintf("%v %v\n%s", x.w.Now(), spent, least)
}

// naming gives the nodes numbers.
type naming map[string]int

// namings lists all ways to number the nodes. The state is the least of the descriptions, so that states which differ in
// which node is which are one: clients ask all nodes at once, and none is different from the others. A client that looks at
// who answers first may know them apart.
func (x *explorer) namings() (all []naming) {
	var give func(as naming)
	give = func(as naming) {
		if len(as) == len(x.w.nodes) {
			all = append(all, maps.Clone(as))
			return
		}
		for _, n := range x.w.nodes {
			if _, has := as[n.name]; !has {
				as[n.name] = len(as) + 1
				give(as)
				delete(as, n.name)
			}
			if x.plan.Ordered && len(all) > 0 {
				return // one is enough
			}
		}
	}
	give(naming{})
	return all
}

func (x *explorer) describeState(checker *checker, as naming) string {
	keys, common := x.holdings(as)
	lines := make([]string, len(x.processes))
	for i, p := range x.processes {
		c := p.Client
		all := slices.Concat(x.past(c, as), x.future(c, as), []string{checker.memory(c.name, x.w.Now())}, keys[c.name])
		lines[i] = x.own(c).Replace(strings.Join(all, "; "))
	}
	for _, r := range x.w.resources {
		common = append(common, fmt.Sprintf("%s: %d", r.name, r.value))
	}
	lines = append(lines, strings.Join(append(common, keys[stranger]...), "; "))
	x.nameTheKnown(lines)
	slices.Sort(lines[:len(x.processes)])
	return strings.Join(lines, "\n")
}

// own replaces a client's name in what it has to do with.
func (x *explorer) own(c *Client) *strings.Replacer {
	var pairs []string
	for _, other := range x.w.clients { // all of them, so that A is not found at the end of BA
		to := other.name + "'s token"
		if other == c {
			to = "own token"
		}
		pairs = append(pairs, other.name+"'s token", to)
	}
	return strings.NewReplacer(pairs...)
}

// nameTheKnown puts its name before the line of each client whose token stands in another line.
func (x *explorer) nameTheKnown(lines []string) {
	for i, p := range x.processes {
		for j, line := range lines {
			if i != j && strings.Contains(line, p.Client.name+"'s token") {
				lines[i] = p.Client.name + ": " + lines[i]
				break
			}
		}
	}
}

// past is what a client has seen, and when it had asked for it: a client that renews has a clock of its own. Nobody who is
// done has anything running: see aftermath. The order in which different nodes answered is no part of the past, unless
// the plan says so.
func (x *explorer) past(c *Client, as naming) []string {
	switch {
	case c.dead:
		return []string{"dead"}
	case x.done[c] && len(x.future(c, as)) == 0:
		return []string{"done"}
	}
	var events []Event
	for _, e := range x.w.history.Events {
		if e.Client == c.name || e.Kind == Fault && e.Client == "" { // a node's faults break connections
			events = append(events, e)
		}
	}
	if !x.plan.Ordered {
		slices.SortStableFunc(events, func(a, b Event) int { return as[a.Node] - as[b.Node] })
	}
	seen := make([]string, len(events))
	for i, e := range events {
		seen[i] = fmt.Sprintf("%v %v %d %s %s %s", e.At-e.Late, e.At, as[e.Node], e.Key, e.Text, e.Reply)
	}
	return seen
}

// future is what a client is about to send, and since when: it may have given up a request that still stands at the gate.
func (x *explorer) future(c *Client, as naming) []string {
	var next []string
	for _, p := range x.gate {
		if p.r.client != c {
			continue
		}
		where := 0 // work
		if p.r.conn != nil {
			where = as[p.r.conn.node.name]
		}
		next = append(next, fmt.Sprintf("at %d: %s %s since %v", where, x.w.describe(c.name, p.r.words), keyOf(p.r.words), p.r.sent))
	}
	slices.Sort(next)
	return next
}

// holdings describes each key at each node, those of clients by client, and what else is to be said of nodes.
func (x *explorer) holdings(as naming) (keys map[string][]string, others []string) {
	keys = map[string][]string{}
	nodes := slices.SortedFunc(slices.Values(x.w.nodes), func(a, b *Node) int { return as[a.name] - as[b.name] })
	for _, n := range nodes {
		for _, key := range n.mr.Keys() {
			o, known := n.owners[key]
			if !known {
				o = owner{deadline: x.w.Now() + n.TTL(key)}
			}
			text := fmt.Sprintf("%d %s = %s until %v", as[n.name], key, x.w.label(o.client, n.content(key)), o.deadline)
			if known {
				keys[o.client] = append(keys[o.client], text)
			} else {
				others = append(others, text)
			}
		}
		if n.down {
			others = append(others, fmt.Sprintf("%d is down", as[n.name]))
		}
	}
	return keys, others
}
