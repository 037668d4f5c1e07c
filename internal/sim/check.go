package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Verdict is what the checker says of a history.
type Verdict string

const (
	Holds          Verdict = "holds"                  // nothing below happened
	TwoHolders     Verdict = "two holders"            // two clients worked at the same time
	DeletedOthers  Verdict = "deleted another's lock" // a client freed a key that another one owned
	Stuck          Verdict = "stuck"                  // nobody can hold the lock, and nobody does
	StaleWrite     Verdict = "stale write"            // a client overwrote what a later one had written
	LeftNoTTL      Verdict = "left without TTL"       // exploration: a dead client's key that no TTL will end
	TwoValidLeases Verdict = "two valid leases"       // exploration: two holders, neither lease has ended
)

// What a Return says, as far as the checker looks at it.
const (
	Taken     = "taken"           // somebody else holds the lock
	NoOneElse = "taken by nobody" // exploration: when all was over, somebody new was refused
)

// Finding is the verdict and the event that decided it.
type Finding struct {
	Verdict Verdict
	Event   int    // index into History.Events of the guilty step, -1 if the verdict is Holds
	Why     string // one sentence that names the step
}

// Check reads a history from the start and stops at the first thing that must not happen.
func Check(h *History) Finding { return check(h, false) }

// CheckLeases is Check for explorations. There a client may be as slow as it likes, so two clients inside are
// a finding only while both leases last. And whoever dies must not leave a key that no TTL will end.
func CheckLeases(h *History) Finding { return check(h, true) }

func check(h *History, leases bool) Finding {
	c := checker{leases: leases,
		inside: map[string]time.Duration{}, dead: map[string]bool{}, frozen: map[string]bool{},
		owner: map[string]string{}, ttl: map[string]time.Duration{}, since: map[string]time.Duration{},
		readAt: map[string]int{}, leaseEnd: map[string]time.Duration{},
	}
	for i, e := range h.Events {
		if v, why := c.step(i, e); v != Holds {
			return Finding{Verdict: v, Event: i, Why: why}
		}
	}
	return Finding{Verdict: Holds, Event: -1, Why: "nothing went wrong"}
}

// checker is what the history says so far.
type checker struct {
	leases bool // judge leases, not clients

	inside   map[string]time.Duration // clients at work, since when
	leaseEnd map[string]time.Duration
	dead     map[string]bool          // crashed clients
	frozen   map[string]bool          // clients that stand still, and so harm nobody
	owner    map[string]string        // node and key → owner
	ttl      map[string]time.Duration // node and key → TTL when last seen
	since    map[string]time.Duration // node and key → when the owner took it

	readAt    map[string]int // client → event of its last read
	lastWrite int
	writer    string
}

func (c *checker) step(i int, e Event) (Verdict, string) {
	at := e.Node + "/" + e.Key
	switch e.Kind {
	case Enter:
		return c.enter(e)
	case Leave:
		delete(c.inside, e.Client)
	case Expire:
		c.owner[at] = ""
	case Fault:
		return c.fault(e)
	case Command:
		if e.Before != e.After {
			defer func() { c.owner[at], c.since[at] = e.After, e.At }()
		}
		c.ttl[at] = e.TTL
		if e.Before != "" && e.Before != e.Client && e.After == "" {
			return DeletedOthers, fmt.Sprintf("%s deletes at %s the key that %s has owned since %s.", e.Client, clock(e.At), e.Before, clock(c.since[at]))
		}
	case Return:
		return c.refused(e)
	case Read:
		c.readAt[e.Client] = i
	case Write:
		if e.Outcome == OK && c.writer != "" && c.writer != e.Client && c.lastWrite > c.readAt[e.Client] {
			return StaleWrite, fmt.Sprintf("%s writes at %s over what %s wrote after %s had read.", e.Client, clock(e.At), c.writer, e.Client)
		}
		if e.Outcome == OK {
			c.lastWrite, c.writer = i, e.Client
		}
	}
	return Holds, ""
}

func (c *checker) enter(e Event) (Verdict, string) {
	for _, other := range slices.Sorted(maps.Keys(c.inside)) {
		since := clock(c.inside[other])
		switch {
		case c.leases && c.leaseEnd[other] > e.At:
			return TwoValidLeases, fmt.Sprintf("%s enters at %s while %s is inside, since %s, and its lease lasts until %s.",
				e.Client, clock(e.At), other, since, clock(c.leaseEnd[other]))
		case !c.leases && !c.frozen[other]:
			return TwoHolders, fmt.Sprintf("%s enters at %s while %s is inside, since %s.", e.Client, clock(e.At), other, since)
		}
	}
	c.inside[e.Client], c.leaseEnd[e.Client] = e.At, e.LeaseEnd
	return Holds, ""
}

func (c *checker) fault(e Event) (Verdict, string) {
	switch e.Text {
	case crashes:
		c.dead[e.Client] = true
		delete(c.inside, e.Client)
		for _, at := range slices.Sorted(maps.Keys(c.owner)) {
			if c.leases && c.owner[at] == e.Client && c.ttl[at] == Forever {
				return LeftNoTTL, fmt.Sprintf("%s dies at %s, and no TTL will ever end its key.", e.Client, clock(e.At))
			}
		}
	case freezes:
		c.frozen[e.Client] = true
	case thaws:
		delete(c.frozen, e.Client)
	}
	return Holds, ""
}

// refused looks at an answer "taken": somebody alive has to hold the lock, or a TTL must end it.
func (c *checker) refused(e Event) (Verdict, string) {
	if e.Text == NoOneElse {
		return Stuck, fmt.Sprintf("%s is refused at %s, when all is over and every TTL has ended.", e.Client, clock(e.At))
	}
	if e.Text != Taken {
		return Holds, ""
	}
	for _, at := range slices.Sorted(maps.Keys(c.owner)) {
		owner := c.owner[at]
		if owner == "" || !strings.HasSuffix(at, "/"+e.Key) {
			continue
		}
		_, working := c.inside[owner]
		switch {
		case owner == e.Client && !working:
			return Stuck, fmt.Sprintf("%s is told \"taken\" at %s, and the key is its own.", e.Client, clock(e.At))
		case c.dead[owner] && c.ttl[at] == Forever:
			return Stuck, fmt.Sprintf("%s is refused at %s by the key of %s, which is dead, and no TTL will ever end it.", e.Client, clock(e.At), owner)
		}
	}
	return Holds, ""
}

// clock writes a time of a story the way people say it: 31s, 1.5s, 250ms.
func clock(d time.Duration) string { return d.Round(time.Millisecond).String() }
