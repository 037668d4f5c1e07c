package sim

import (
	"fmt"
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
	keys, common := x.holdings()
	lines := make([]string, len(x.processes))
	for i, p := range x.processes {
		c := p.Client
		all := slices.Concat(x.past(c), x.future(c), []string{checker.memory(c.name, x.w.Now())}, keys[c.name])
		lines[i] = x.own(c).Replace(strings.Join(all, "; "))
	}
	for _, r := range x.w.resources {
		common = append(common, fmt.Sprintf("%s: %d", r.name, r.value))
	}
	lines = append(lines, strings.Join(append(common, keys[stranger]...), "; "))
	x.nameTheKnown(lines)
	slices.Sort(lines[:len(x.processes)])
	return fmt.Sprintf("%v %d %d %d\n%s", x.w.Now(), x.crashes, x.losses, x.renewed, strings.Join(lines, "\n"))
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
func (x *explorer) past(c *Client) []string {
	switch {
	case c.dead:
		return []string{"dead"}
	case x.done[c] && len(x.future(c)) == 0:
		return []string{"done"}
	}
	var events []Event
	for _, e := range x.w.history.Events {
		if e.Client == c.name {
			events = append(events, e)
		}
	}
	if !x.plan.Ordered {
		slices.SortStableFunc(events, func(a, b Event) int { return strings.Compare(a.Node, b.Node) })
	}
	seen := make([]string, len(events))
	for i, e := range events {
		seen[i] = fmt.Sprintf("%v %v %s %s %s %s", e.At-e.Late, e.At, e.Node, e.Key, e.Text, e.Reply)
	}
	return seen
}

// future is what a client is about to send, and since when: it may have given up a request that still stands at the gate.
func (x *explorer) future(c *Client) []string {
	var next []string
	all, names := x.standing(c)
	for i, p := range all {
		next = append(next, fmt.Sprintf("%s at %s since %v",
			strings.TrimPrefix(string(names[i]), c.name), x.w.describe(c.name, p.r.words), p.r.sent))
	}
	return next
}

// holdings describes each key at each node: those of clients by client, the others together.
func (x *explorer) holdings() (keys map[string][]string, others []string) {
	keys = map[string][]string{}
	for _, n := range x.w.nodes {
		for _, key := range n.mr.Keys() {
			o, known := n.owners[key]
			if !known {
				o = owner{deadline: x.w.Now() + n.TTL(key)}
			}
			text := fmt.Sprintf("%s %s = %s until %v", n.name, key, x.w.label(o.client, n.content(key)), o.deadline)
			if known {
				keys[o.client] = append(keys[o.client], text)
			} else {
				others = append(others, text)
			}
		}
	}
	return keys, others
}
