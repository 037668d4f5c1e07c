package sim

import (
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"
)

// nodeOptions lists what can happen to nodes next.
func (x *explorer) nodeOptions() []choice {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	var die, back, empty, jump []choice
	for i, n := range x.w.nodes {
		name := choice(strconv.Itoa(i + 1))
		if n.down {
			back = append(back, name+"r")
		} else if x.outages < x.plan.Outages {
			die = append(die, name+"x")
		}
		if x.empties < x.plan.Empties && len(n.owners) > 0 {
			empty = append(empty, name+"e")
		}
		if _, some := n.nextExpiry(x.w.Now()); some && !n.down && x.jumps < x.plan.Jumps {
			jump = append(jump, name+"t")
		}
	}
	return slices.Concat(die, back, empty, jump)
}

// nextExpiry returns in how long the node's next TTL ends, if there is one.
func (n *Node) nextExpiry(now time.Duration) (in time.Duration, some bool) {
	for _, o := range n.owners {
		if left := o.deadline - now; o.deadline != Forever && left > 0 && (!some || left < in) {
			in, some = left, true
		}
	}
	return in, some
}

// takeNode lets something happen to a node, if that is what the choice says.
func (x *explorer) takeNode(c choice) bool {
	number, err := strconv.Atoi(strings.TrimRight(string(c), "xret"))
	if err != nil {
		return false
	}
	n := x.w.nodes[number-1]
	switch c[len(c)-1] {
	case 'x':
		x.outages++
		n.Crash()
	case 'r':
		n.Restart(true)
	case 'e':
		x.empties++
		n.Restart(false)
	case 't':
		x.jumps++
		x.w.mu.Lock()
		in, _ := n.nextExpiry(x.w.Now())
		x.w.mu.Unlock()
		n.JumpClock(in)
	}
	x.sendHome()
	return true
}

// sendHome lets requests on broken connections fail at once, one after the other: nobody waits for a node that is gone.
func (x *explorer) sendHome() {
	x.mu.Lock()
	var gone []*parked
	for _, p := range x.processes {
		all, _ := x.standing(p.Client)
		for _, r := range all {
			if r.r.conn != nil && r.r.conn.broken() && !p.Client.dead {
				gone = append(gone, r)
			}
		}
	}
	x.gate = slices.DeleteFunc(x.gate, func(p *parked) bool { return slices.Contains(gone, p) })
	x.mu.Unlock()
	for _, p := range gone {
		close(p.leave)
		synctest.Wait()
	}
}

// broken reports whether no request can pass the connection any more.
func (cn *conn) broken() bool {
	cn.client.w.mu.Lock()
	defer cn.client.w.mu.Unlock()
	return cn.err != nil
}
