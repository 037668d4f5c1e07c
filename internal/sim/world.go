package sim

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Most of what a world makes is garbage a moment later, and little of it lives long. With Go's default half of the time of
// a test goes into looking for it.
func init() { debug.SetGCPercent(400) }

// World is one story's universe: nodes, clients, the network between them, and one clock.
// A story calls its methods from one goroutine; what the clients do runs on goroutines of their own.
type World struct {
	t     testing.TB
	start time.Time

	mu        sync.Mutex // guards all below, and every field of nodes and clients
	nodes     []*Node
	clients   []*Client
	resources []*Resource
	history   History
	labels    map[string]string // random token → "A's token"
	ended     bool
	atEnd     []func()
	gate      func(*request) // exploration: called before a request leaves its client
}

// Run opens a bubble of virtual time, lets the story happen in it, and returns what happened. An hour of a
// story takes milliseconds. The world is torn down before Run returns: nothing is left running.
func Run(t *testing.T, story func(w *World)) *History {
	t.Helper()
	var h *History
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() { h = w.end() }()
		story(w)
		synctest.Wait()
	})
	return h
}

func newWorld(t testing.TB) *World {
	return &World{t: t, start: time.Now(), labels: map[string]string{}}
}

// Now is the time since the story began.
func (w *World) Now() time.Duration { return time.Since(w.start) }

// Nodes lists the world's nodes, in the order in which they were added.
func (w *World) Nodes() []*Node { return w.nodes }

// At lets time pass until d after the story's beginning, with everything that happens in between. Every
// step of a story gets an instant of its own: two things at one instant have no order.
func (w *World) At(d time.Duration) {
	w.t.Helper()
	if d < w.Now() {
		w.t.Fatalf("the story is at %v already, it can't go back to %v", w.Now(), d)
	}
	time.Sleep(d - w.Now())
	synctest.Wait()
}

// AtEnd lets f run when the story is over and nothing reaches a node any more: a process that still holds a lock then ends
// what it has running.
func (w *World) AtEnd(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.atEnd = append(w.atEnd, f)
}

// Record adds an event to the history. Its time is now.
func (w *World) Record(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record(e)
}

func (w *World) record(e Event) {
	if w.ended {
		return
	}
	w.expireDue()
	e.At = w.Now()
	w.history.Events = append(w.history.Events, e)
}

// expireDue writes down the leases that have ended since the last event, at the instant at which they did.
func (w *World) expireDue() {
	var due []Event
	for _, n := range w.nodes {
		due = append(due, n.expireDue(w.Now())...)
	}
	slices.SortStableFunc(due, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	w.history.Events = append(w.history.Events, due...)
}

// History returns what has happened so far.
func (w *World) History() *History {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expireDue()
	h := w.history
	h.Events = append([]Event(nil), h.Events...)
	for _, n := range w.nodes {
		h.Nodes = append(h.Nodes, n.name)
	}
	for _, c := range w.clients {
		h.Clients = append(h.Clients, c.name)
	}
	return &h
}

// end breaks every connection, lets stopped clients run into errors, and waits until all of them are gone.
func (w *World) end() *History {
	h := w.History()
	w.mu.Lock()
	w.ended = true
	for _, c := range w.clients {
		c.cutAll()
		c.resume()
	}
	w.mu.Unlock()
	for _, c := range w.clients {
		c.wait()
	}
	for _, f := range w.atEnd {
		f()
	}
	for _, c := range w.clients {
		for _, rdb := range c.rdbs {
			_ = rdb.Close()
		}
	}
	time.Sleep(time.Minute) // a bubble's clock stands still once the story has returned; let what runs in the background end
	for _, n := range w.nodes {
		n.mr.Close()
	}
	return h
}

// token is what the labels stand for: 128 random bits in hexadecimal, alone or inside a longer value.
var token = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// label gives every random token in a text a name that is the same on every run. A token belongs to the client that
// sent it first.
func (w *World) label(client, text string) string {
	if len(text) < 32 {
		return text
	}
	return token.ReplaceAllStringFunc(text, func(random string) string {
		if _, known := w.labels[random]; !known {
			w.labels[random] = w.nextLabel(client)
		}
		return w.labels[random]
	})
}

func (w *World) nextLabel(client string) string {
	name, n := client+"'s token", 1
	for _, l := range w.labels {
		if strings.HasPrefix(l, name) {
			n++
		}
	}
	if n > 1 {
		name = fmt.Sprintf("%s %d", name, n)
	}
	return name
}
