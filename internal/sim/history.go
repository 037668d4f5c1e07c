package sim

import (
	"encoding/json"
	"time"
)

// Kind says what an Event is about.
type Kind string

const (
	Call    Kind = "call"    // a client calls a method of its lock
	Return  Kind = "return"  // that call came back; Outcome says how
	Enter   Kind = "enter"   // a client begins the work that the lock protects
	Leave   Kind = "leave"   // it has finished this work
	Command Kind = "command" // a node executed a command
	Expire  Kind = "expire"  // a key's TTL ended
	Fault   Kind = "fault"   // the story did something to a client, a message or a node
	Read    Kind = "read"    // a client read the shared resource
	Write   Kind = "write"   // a client wrote the shared resource; Outcome says whether it was accepted
)

// Outcome of a call, as far as the caller can know.
type Outcome string

const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"  // a definite no
	Unknown Outcome = "unknown" // it may have happened or not
)

// Event is one thing that happened. The order of events is the order in which they happened.
type Event struct {
	At      time.Duration `json:"at"`               // since the story began
	Kind    Kind          `json:"kind"`             //
	Client  string        `json:"client,omitempty"` // who did it, or whom it befell
	Node    string        `json:"node,omitempty"`   // where, if it happened at a node
	Key     string        `json:"key,omitempty"`    // the Redis key it was about
	Text    string        `json:"text"`             // what happened, in a few words
	Reply   string        `json:"reply,omitempty"`  // what the node answered to a Command
	Outcome Outcome       `json:"outcome,omitempty"`

	// Who owned the key before and after, and how long it had left after. "" is nobody.
	Before string        `json:"before,omitempty"`
	After  string        `json:"after,omitempty"`
	TTL    time.Duration `json:"ttl,omitempty"` // Forever if the key has no TTL

	// Late is how long a Command was on its way. Only an exploration knows that.
	Late time.Duration `json:"late,omitempty"`

	// LeaseEnd of an Enter is when the lease of this acquisition can end at the earliest, 0 if unknown. It is Forever if the
	// lock itself tells its holder: then the lease lasts until the holder leaves.
	LeaseEnd time.Duration `json:"leaseEnd,omitempty"`
}

// Forever is the TTL of a key that has none.
const Forever = time.Duration(-1)

// History is what happened in a story, first things first.
type History struct {
	Clients []string `json:"clients"`
	Nodes   []string `json:"nodes"`
	Events  []Event  `json:"events"`
}

// JSON renders the history for other programs. Durations are nanoseconds.
func (h *History) JSON() []byte {
	out, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		panic(err) // strings and numbers only: can't fail
	}
	return out
}

// Contended reports whether two clients really met: one asked for a key while it was another's. Without that a story
// proves nothing.
func (h *History) Contended() bool {
	inside := map[hold]bool{}
	for _, e := range h.Events {
		switch e.Kind {
		case Enter:
			for other := range inside {
				if other.key == e.Key && other.client != e.Client {
					return true
				}
			}
			inside[hold{e.Client, e.Key}] = true
		case Leave:
			delete(inside, hold{e.Client, e.Key})
		case Command:
			if e.Before != "" && e.Before != e.Client {
				return true
			}
		}
	}
	return false
}
