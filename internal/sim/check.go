package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"example.com/redislock/internal/wire"
)

// Verdict is what the checker says of a history.
type Verdict string

const (
	Holds          Verdict = "holds"                  // nothing below happened
	TwoHolders     Verdict = "two holders"            // two clients worked at the same time
	DeletedOthers  Verdict = "deleted another's lock" // a client freed a key that another one owned
	Stuck          Verdict = "stuck"                  // nobody can hold the lock, and nobody does
	StaleWrite     Verdict = "stale write"            // a client overwrote what a later one had written
	SelfBlocked    Verdict = "waits for itself"       // a client is refused by a lock that it holds
	LeftNoTTL      Verdict = "left without TTL"       // exploration: a dead client's key that no TTL will end
	TwoValidLeases Verdict = "two valid leases"       // exploration: two holders, neither lease has ended
	RenewedOthers  Verdict = "renewed another's lock" // exploration: a holder prolonged or took a key that another one owned
	Revived        Verdict = "revived a lost lock"    // exploration: a holder put its key back when it was gone
	OutlivesKey    Verdict = "lease outlives key"     // exploration: a key ended, and its holder had not been told before
	RenewsLate     Verdict = "renews after Unlock"    // exploration: a client sent a renewal when it had left
)

// What a Return says, as far as the checker looks at it.
const (
	Taken     = "taken"           // somebody else holds the lock
	NoOneElse = "taken by nobody" // exploration: when all was over, somebody new was refused
)

// What a Call says, as far as the checker looks at it.
const renews = "sends a renewal" // exploration: although it has left

// Finding is the verdict and the event that decided it.
type Finding struct {
	Verdict Verdict
	Event   int    // index into History.Events of the guilty step, -1 if the verdict is Holds
	Why     string // one sentence that names the step
}

// Check reads a history from the start and stops at the first thing that must not happen. A frozen client inside
// harms nobody while it stands still. When it goes on, that alone is no finding either, since no lock can prevent
// it: what it writes then is one.
func Check(h *History) Finding {
	_, f := check(h, false)
	return f
}

// CheckLeases is Check for explorations. There a client may be as slow as it likes, so two clients inside are
// a finding only while both leases last. And whoever dies must not leave a key that no TTL will end.
func CheckLeases(h *History) Finding {
	_, f := check(h, true)
	return f
}

func check(h *History, leases bool) (*checker, Finding) {
	c := &checker{leases: leases, nodes: max(1, len(h.Nodes)),
		inside: map[hold]stay{}, dead: map[string]bool{}, frozen: map[string]bool{},
		keys: map[place]held{}, looked: map[hold]int{}, entered: map[string]int{}, written: map[string]write{},
		holder: map[string]bool{},
	}
	for i, e := range h.Events {
		if v, why := c.step(i+1, e); v != Holds {
			return c, Finding{Verdict: v, Event: i, Why: why}
		}
	}
	return c, Finding{Verdict: Holds, Event: -1, Why: "nothing went wrong"}
}

// checker is what the history says so far. Events are numbered from 1, so that 0 is never.
type checker struct {
	leases bool // judge leases, not clients
	nodes  int

	inside map[hold]stay
	dead   map[string]bool // crashed clients
	frozen map[string]bool // clients that stand still, and so harm nobody
	keys   map[place]held
	holder map[string]bool // clients that have entered, and have not asked for a lock since

	looked  map[hold]int // client and resource → its last read
	entered map[string]int
	written map[string]write // resource → the last write
}

type hold struct{ client, key string } // a client's work under a lock, or its view of a resource
type place struct{ node, key string }  // a key at a node
type write struct {
	client string
	n      int
} // who wrote a resource, and in which event

// stay is the time that a client spends inside.
type stay struct {
	depth           int // a lock may be taken again by its holder
	since, leaseEnd time.Duration
}

// lasts reports whether the lease is valid.
func (s stay) lasts(now time.Duration) bool { return s.leaseEnd == Forever || s.leaseEnd > now }

// held says who owns a key, since when, its TTL when last seen, and when that ends.
type held struct {
	owner           string
	since, ttl, end time.Duration
}

func (c *checker) step(n int, e Event) (Verdict, string) {
	switch e.Kind {
	case Enter:
		c.entered[e.Client], c.holder[e.Client] = n, true
		return c.enter(e)
	case Call:
		return c.call(e)
	case Leave:
		c.leave(hold{e.Client, e.Key})
	case Expire:
		return c.expire(e)
	case Fault:
		return c.fault(e)
	case Command:
		return c.command(e)
	case Return:
		return c.refused(e)
	case Read:
		c.looked[hold{e.Client, e.Key}] = n
	case Write:
		return c.write(n, e)
	}
	return Holds, ""
}

func (c *checker) enter(e Event) (Verdict, string) {
	me := hold{e.Client, e.Key}
	for _, other := range c.others(me) {
		there := c.inside[other]
		switch {
		case c.leases && there.leaseEnd == Forever:
			return TwoValidLeases, fmt.Sprintf("%s enters at %s while %s is inside, since %s, and its lease has not ended.",
				e.Client, clock(e.At), other.client, clock(there.since))
		case c.leases && there.lasts(e.At):
			return TwoValidLeases, fmt.Sprintf("%s enters at %s while %s is inside, since %s, and its lease lasts until %s.",
				e.Client, clock(e.At), other.client, clock(there.since), clock(there.leaseEnd))
		case !c.leases && !c.frozen[other.client]:
			return TwoHolders, fmt.Sprintf("%s enters at %s while %s is inside, since %s.",
				e.Client, clock(e.At), other.client, clock(there.since))
		}
	}
	s := c.inside[me]
	if s.depth == 0 {
		s.since = e.At
	}
	s.depth, s.leaseEnd = s.depth+1, e.LeaseEnd
	c.inside[me] = s
	return Holds, ""
}

// others lists who else is inside under the same lock, in a fixed order.
func (c *checker) others(me hold) []hold {
	var all []hold
	for h := range c.inside {
		if h.key == me.key && h.client != me.client {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b hold) int { return strings.Compare(a.client, b.client) })
	return all
}

func (c *checker) leave(me hold) {
	s := c.inside[me]
	if s.depth--; s.depth > 0 {
		c.inside[me] = s
		return
	}
	delete(c.inside, me)
}

func (c *checker) command(e Event) (Verdict, string) {
	at := place{e.Node, e.Key}
	if e.Before != "" && e.Before != e.Client && e.After == "" {
		return DeletedOthers, fmt.Sprintf("%s deletes at %s the key that %s has owned since %s.",
			e.Client, clock(e.At), e.Before, clock(c.keys[at].since))
	}
	if c.leases && c.holder[e.Client] && e.Before != e.Client && !(c.nodes > 1 && acquires(e)) {
		if v, why := c.renewal(at, e); v != Holds {
			return v, why
		}
	}
	c.own(at, e)
	return Holds, ""
}

// acquires reports whether a command may be the late vote of one more node, for a client that a majority has let in before.
// On one node nobody acquires what it holds.
func acquires(e Event) bool {
	name, _, _ := strings.Cut(e.Text, " ")
	return name == "acquire" || wire.Acquires([]string{name})
}

// renewal looks at what somebody who has held the lock does to a key that is no longer its own.
func (c *checker) renewal(at place, e Event) (Verdict, string) {
	before := c.keys[at]
	longer := before.ttl != Forever && (e.TTL == Forever || e.At+e.TTL > before.end)
	switch {
	case e.After == "":
	case e.Before == "" && e.After == e.Client:
		return Revived, fmt.Sprintf("%s puts its key back at %s, and it was gone.", e.Client, clock(e.At))
	case e.Before != "" && (e.After == e.Client || longer):
		return RenewedOthers, fmt.Sprintf("%s renews at %s the key that %s has owned since %s.",
			e.Client, clock(e.At), e.Before, clock(before.since))
	}
	return Holds, ""
}

// expire looks whether a lock on one node that tells its holder when the lease ends has done so in time.
func (c *checker) expire(e Event) (Verdict, string) {
	delete(c.keys, place{e.Node, e.Key})
	if s := c.inside[hold{e.Before, e.Key}]; c.leases && c.nodes == 1 && s.leaseEnd == Forever {
		return OutlivesKey, fmt.Sprintf("%s is inside when its key ends at %s, since %s, and its lease has not ended.",
			e.Before, clock(e.At), clock(s.since))
	}
	return Holds, ""
}

func (c *checker) call(e Event) (Verdict, string) {
	if e.Text == renews {
		return RenewsLate, fmt.Sprintf("%s sends a renewal at %s, and has left the lock.", e.Client, clock(e.At))
	}
	c.holder[e.Client] = false
	return Holds, ""
}

// own remembers whose the key is after an event.
func (c *checker) own(at place, e Event) {
	since := c.keys[at].since
	if e.Before != e.After {
		since = e.At
	}
	if c.keys[at] = (held{e.After, since, e.TTL, e.At + e.TTL}); e.After == "" {
		delete(c.keys, at)
	}
}

func (c *checker) fault(e Event) (Verdict, string) {
	switch e.Text {
	case crashes:
		return c.crash(e)
	case freezes:
		c.frozen[e.Client] = true
	case thaws:
		delete(c.frozen, e.Client)
	case restartsEmpty, failsOver:
		maps.DeleteFunc(c.keys, func(at place, _ held) bool { return at.node == e.Node })
	case isSet:
		c.own(place{e.Node, e.Key}, e)
	}
	return Holds, ""
}

func (c *checker) crash(e Event) (Verdict, string) {
	c.dead[e.Client] = true
	maps.DeleteFunc(c.inside, func(h hold, _ stay) bool { return h.client == e.Client })
	for _, k := range c.keys {
		if c.leases && k.owner == e.Client && k.ttl == Forever {
			return LeftNoTTL, fmt.Sprintf("%s dies at %s, and no TTL will ever end its key.", e.Client, clock(e.At))
		}
	}
	return Holds, ""
}

// refused looks at an answer "taken": somebody alive has to hold the lock, or a TTL must end it. A lock on
// several nodes is held where a majority says so.
func (c *checker) refused(e Event) (Verdict, string) {
	if e.Text == NoOneElse {
		return Stuck, fmt.Sprintf("%s is refused at %s, when all is over and every TTL has ended.", e.Client, clock(e.At))
	}
	if e.Text != Taken {
		return Holds, ""
	}
	_, working := c.inside[hold{e.Client, e.Key}]
	own, lost, of := 0, 0, ""
	for at, k := range c.keys {
		switch {
		case at.key != e.Key:
		case k.owner == e.Client:
			own++
		case c.dead[k.owner] && k.ttl == Forever:
			lost++
			if of == "" || k.owner < of {
				of = k.owner
			}
		}
	}
	switch {
	case own > c.nodes/2 && working:
		return SelfBlocked, fmt.Sprintf("%s is told \"taken\" at %s by the lock that it holds itself.", e.Client, clock(e.At))
	case own > c.nodes/2 && c.leases && c.nodes > 1:
		// A reply came too late to count, and the clean-up is on its way. What it leaves is seen when all is over.
	case own > c.nodes/2:
		return Stuck, fmt.Sprintf("%s is told \"taken\" at %s, and the key is its own.", e.Client, clock(e.At))
	case lost >= c.nodes-c.nodes/2: // what is left is no majority
		return Stuck, fmt.Sprintf("%s is refused at %s by the key of %s, which is dead, and no TTL will ever end it.", e.Client, clock(e.At), of)
	}
	return Holds, ""
}

func (c *checker) write(n int, e Event) (Verdict, string) {
	if e.Outcome != OK {
		return Holds, ""
	}
	if last := c.written[e.Key]; c.stale(e.Client, e.Key) {
		return StaleWrite, fmt.Sprintf("%s writes at %s over what %s has written meanwhile.", e.Client, clock(e.At), last.client)
	}
	c.written[e.Key] = write{e.Client, n}
	return Holds, ""
}

// stale reports whether somebody else wrote the resource after the client had read it, or had entered.
func (c *checker) stale(client, resource string) bool {
	last := c.written[resource]
	return last.n > 0 && last.client != client && last.n > max(c.looked[hold{client, resource}], c.entered[client])
}

// memory is what later verdicts depend on, as far as one client is concerned.
func (c *checker) memory(client string, now time.Duration) string {
	var all []string
	for h, s := range c.inside {
		if h.client == client && s.lasts(now) {
			all = append(all, fmt.Sprintf("inside %s %d deep until %v", h.key, s.depth, s.leaseEnd))
		}
	}
	for resource, last := range c.written {
		if last.client == client {
			all = append(all, "wrote "+resource)
		}
		if c.stale(client, resource) {
			all = append(all, "has missed a write to "+resource)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// clock writes a time of a story the way people say it: 31s, 1.5s, 250ms.
func clock(d time.Duration) string { return d.Round(time.Millisecond).String() }
