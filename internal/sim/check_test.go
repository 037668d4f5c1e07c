package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Events for histories by hand. The key is always "k", the node "N".
func at(s float64, e Event) Event {
	e.At = time.Duration(s * float64(time.Second))
	if e.Key == "" {
		e.Key = "k"
	}
	return e
}
func enter(c string) Event { return Event{Kind: Enter, Client: c} }
func enterUntil(c string, end float64) Event {
	return Event{Kind: Enter, Client: c, LeaseEnd: time.Duration(end * float64(time.Second))}
}
func leave(c string) Event       { return Event{Kind: Leave, Client: c} }
func fault(c, text string) Event { return Event{Kind: Fault, Client: c, Text: text} }
func refusal(c, text string) Event {
	return Event{Kind: Return, Client: c, Outcome: Failed, Text: text}
}
func command(c, before, after string, ttl time.Duration) Event {
	return Event{Kind: Command, Client: c, Node: "N", Before: before, After: after, TTL: ttl}
}
func reads(c, what string) Event  { return Event{Kind: Read, Client: c, Key: what} }
func writes(c, what string) Event { return Event{Kind: Write, Client: c, Key: what, Outcome: OK} }
func under(key string, e Event) Event {
	e.Key = key
	return e
}
func on(node string, e Event) Event {
	e.Node = node
	return e
}

// The checker can say every one of its verdicts, and says it at the right event.
func TestVerdicts(t *testing.T) {
	tests := []struct {
		name   string
		leases bool
		nodes  []string
		events []Event
		want   Verdict
		event  int
		why    string
	}{
		{name: "two clients inside", want: TwoHolders, event: 1,
			why:    "B enters at 31s while A is inside, since 0s.",
			events: []Event{at(0, enter("A")), at(31, enter("B"))}},
		{name: "still inside after a nested stay", want: TwoHolders, event: 3,
			why:    "B enters at 4s while A is inside, since 1s.",
			events: []Event{at(1, enter("A")), at(2, enter("A")), at(3, leave("A")), at(4, enter("B"))}},
		{name: "thawed before the other enters", want: TwoHolders, event: 3,
			why:    "B enters at 4s while A is inside, since 1s.",
			events: []Event{at(1, enter("A")), at(2, fault("A", freezes)), at(3, fault("A", thaws)), at(4, enter("B"))}},
		{name: "a foreign key deleted", want: DeletedOthers, event: 2,
			why: "A deletes at 32s the key that B has owned since 31s.",
			events: []Event{at(0, command("A", "", "A", ttl)), at(31, command("B", "", "B", ttl)),
				at(32, command("A", "B", "", 0))}},
		{name: "a key renewed and then deleted by another", want: DeletedOthers, event: 2,
			why: "A deletes at 9s the key that B has owned since 1s.",
			events: []Event{at(1, command("B", "", "B", ttl)), at(5, command("B", "B", "B", ttl)),
				at(9, command("A", "B", "", 0))}},
		{name: "a stranger's key deleted", want: DeletedOthers, event: 1,
			why: "A deletes at 2s the key that stranger has owned since 1s.",
			events: []Event{at(1, Event{Kind: Fault, Node: "N", Text: isSet, After: stranger, TTL: Forever}),
				at(2, command("A", stranger, "", 0))}},
		{name: "told taken by its own key", want: Stuck, event: 1,
			why:    `A is told "taken" at 1s, and the key is its own.`,
			events: []Event{at(0, command("A", "", "A", ttl)), at(1, refusal("A", Taken))}},
		{name: "told taken by its own key while it works", want: SelfBlocked, event: 2,
			why:    `A is told "taken" at 1s by the lock that it holds itself.`,
			events: []Event{at(0, command("A", "", "A", ttl)), at(0, enter("A")), at(1, refusal("A", Taken))}},
		{name: "refused by the key of a dead client", want: Stuck, event: 2,
			why: "B is refused at 9s by the key of A, which is dead, and no TTL will ever end it.",
			events: []Event{at(0, command("A", "", "A", Forever)), at(1, fault("A", crashes)),
				at(9, refusal("B", Taken))}},
		{name: "told taken by its own key at two of three nodes", want: Stuck, event: 2,
			nodes: []string{"N", "O", "P"},
			why:   `A is told "taken" at 2s, and the key is its own.`,
			events: []Event{at(0, command("A", "", "A", ttl)), at(1, on("O", command("A", "", "A", ttl))),
				at(2, refusal("A", Taken))}},
		{name: "refused when all is over", want: Stuck, event: 0,
			why:    "Z is refused at 1m0s, when all is over and every TTL has ended.",
			events: []Event{at(60, refusal("Z", NoOneElse))}},
		{name: "a write over a later one", want: StaleWrite, event: 3,
			why: "A writes at 4s over what B has written meanwhile.",
			events: []Event{at(1, reads("A", "stock")), at(2, reads("B", "stock")), at(3, writes("B", "stock")),
				at(4, writes("A", "stock"))}},
		{name: "a blind write over that of a client that entered later", want: StaleWrite, event: 5,
			why: "A writes at 5s over what B has written meanwhile.",
			events: []Event{at(0, enter("A")), at(1, fault("A", freezes)), at(2, enter("B")), at(3, writes("B", "stock")),
				at(4, fault("A", thaws)), at(5, writes("A", "stock"))}},
		{name: "a dead client's key without TTL", leases: true, want: LeftNoTTL, event: 1,
			why:    "A dies at 1s, and no TTL will ever end its key.",
			events: []Event{at(0, command("A", "", "A", Forever)), at(1, fault("A", crashes))}},
		{name: "two leases that both last", leases: true, want: TwoValidLeases, event: 1,
			why:    "B enters at 29s while A is inside, since 0s, and its lease lasts until 30s.",
			events: []Event{at(0, enterUntil("A", 30)), at(29, enterUntil("B", 59))}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &History{Nodes: tt.nodes, Events: tt.events}
			f := Check(h)
			if tt.leases {
				f = CheckLeases(h)
			}
			require.Equal(t, Finding{Verdict: tt.want, Event: tt.event, Why: tt.why}, f)
		})
	}
}

// What looks nearly as bad, and is allowed, holds.
func TestNearMisses(t *testing.T) {
	tests := []struct {
		name   string
		leases bool
		nodes  []string
		events []Event
	}{
		{name: "nothing at all"},
		{name: "one leaves and another enters at the same instant",
			events: []Event{at(0, enter("A")), at(5, leave("A")), at(5, enter("B"))}},
		{name: "two locks", events: []Event{at(0, under("j", enter("A"))), at(1, under("k", enter("B")))}},
		{name: "a nested stay", events: []Event{at(0, enter("A")), at(1, enter("A")), at(2, leave("A")), at(3, leave("A")), at(4, enter("B"))}},
		{name: "the other one is dead",
			events: []Event{at(0, enter("A")), at(1, fault("A", crashes)), at(2, enter("B"))}},
		{name: "the other one is frozen",
			events: []Event{at(0, enter("A")), at(1, fault("A", freezes)), at(2, enter("B"))}},
		{name: "its own key deleted",
			events: []Event{at(0, command("A", "", "A", ttl)), at(1, command("A", "A", "", 0))}},
		{name: "a DEL that finds nothing", events: []Event{at(1, command("A", "", "", 0))}},
		{name: "a foreign key overwritten, and deleted by its new owner",
			events: []Event{at(0, command("A", "", "A", ttl)), at(1, command("B", "A", "B", ttl)), at(2, command("B", "B", "", 0))}},
		{name: "refused by a foreign key",
			events: []Event{at(0, command("A", "", "A", ttl)), at(1, refusal("B", Taken))}},
		{name: "refused by the key of a dead client that has a TTL",
			events: []Event{at(0, command("A", "", "A", ttl)), at(1, fault("A", crashes)), at(2, refusal("B", Taken))}},
		{name: "refused by the key of a live client that has no TTL",
			events: []Event{at(0, command("A", "", "A", Forever)), at(2, refusal("B", Taken))}},
		{name: "told taken after its own key ended", events: []Event{at(0, command("A", "", "A", ttl)),
			at(30, Event{Kind: Expire, Node: "N", Before: "A"}), at(31, refusal("A", Taken))}},
		{name: "told taken after the node lost its key", events: []Event{at(0, command("A", "", "A", ttl)),
			at(1, Event{Kind: Fault, Node: "N", Text: restartsEmpty}), at(2, refusal("A", Taken))}},
		{name: "told taken of another key whose name ends alike",
			events: []Event{at(0, under("a/k", command("A", "", "A", ttl))), at(1, refusal("A", Taken))}},
		{name: "its own key at one of three nodes", nodes: []string{"N", "O", "P"},
			events: []Event{at(0, command("A", "", "A", ttl)), at(1, refusal("A", Taken))}},
		{name: "a dead client's key at one of three nodes", nodes: []string{"N", "O", "P"},
			events: []Event{at(0, command("A", "", "A", Forever)), at(1, fault("A", crashes)), at(2, refusal("B", Taken))}},
		{name: "an outcome that nobody knows",
			events: []Event{at(0, command("A", "", "A", ttl)), at(1, Event{Kind: Return, Client: "A", Outcome: Unknown, Text: "unknown: EOF"})}},
		{name: "a write after a new look", events: []Event{at(1, reads("A", "stock")), at(2, writes("B", "stock")),
			at(3, reads("A", "stock")), at(4, writes("A", "stock"))}},
		{name: "a blind write by one who entered after the last", events: []Event{at(1, writes("B", "stock")),
			at(2, enter("A")), at(3, writes("A", "stock"))}},
		{name: "a stale write that the resource refused", events: []Event{at(1, reads("A", "stock")), at(2, writes("B", "stock")),
			at(3, Event{Kind: Write, Client: "A", Key: "stock", Outcome: Failed})}},
		{name: "writes to two resources", events: []Event{at(1, reads("A", "x")), at(2, writes("B", "y")), at(3, writes("A", "x"))}},
		{name: "a dead client's key that has a TTL", leases: true,
			events: []Event{at(0, command("A", "", "A", ttl)), at(1, fault("A", crashes))}},
		{name: "a dead client that gave its key back", leases: true,
			events: []Event{at(0, command("A", "", "A", Forever)), at(1, command("A", "A", "", 0)), at(2, fault("A", crashes))}},
		{name: "a dead client whose key the node lost", leases: true, events: []Event{at(0, command("A", "", "A", Forever)),
			at(1, Event{Kind: Fault, Node: "N", Text: restartsEmpty}), at(2, fault("A", crashes))}},
		{name: "a lease that ends when the next one begins", leases: true,
			events: []Event{at(0, enterUntil("A", 30)), at(30, enterUntil("B", 60))}},
		{name: "two clients inside, in an exploration, after the first lease", leases: true,
			events: []Event{at(0, enterUntil("A", 30)), at(40, enter("B"))}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &History{Nodes: tt.nodes, Events: tt.events}
			f := Check(h)
			if tt.leases {
				f = CheckLeases(h)
			}
			require.Equal(t, Finding{Verdict: Holds, Event: -1, Why: "nothing went wrong"}, f)
		})
	}
}

// Crashes without TTL matter to explorations only: in a story the next client shows it.
func TestStoriesDontAskForTTLs(t *testing.T) {
	h := &History{Events: []Event{at(0, command("A", "", "A", Forever)), at(1, fault("A", crashes))}}
	require.Equal(t, Holds, Check(h).Verdict)
}

// A story has contention if one client meets another's key or work, under the same lock.
func TestContended(t *testing.T) {
	meets := []Event{at(0, command("A", "", "A", ttl)), at(1, command("B", "A", "A", ttl))}
	both := []Event{at(0, enter("A")), at(1, enter("B"))}
	for _, events := range [][]Event{meets, both} {
		require.True(t, (&History{Events: events}).Contended())
	}
	own := []Event{at(0, command("A", "", "A", ttl)), at(1, command("A", "A", "A", ttl))}
	turns := []Event{at(0, enter("A")), at(1, leave("A")), at(1, enter("B"))}
	nested := []Event{at(0, enter("A")), at(1, enter("A"))}
	apart := []Event{at(0, under("j", enter("A"))), at(1, under("k", enter("B")))}
	for _, events := range [][]Event{nil, own, turns, nested, apart} {
		require.False(t, (&History{Events: events}).Contended())
	}
}

// On one node a SET by somebody who has entered revives a key. On several it may be a vote that came late.
func TestLateVote(t *testing.T) {
	h := &History{Nodes: []string{"N1"}, Events: []Event{
		{Kind: Enter, Client: "A", Key: "k", LeaseEnd: Forever},
		{Kind: Command, Client: "A", Node: "N1", Key: "k", Text: "SET ex 30 NX", After: "A", TTL: ttl},
	}}
	require.Equal(t, Revived, CheckLeases(h).Verdict)
	h.Nodes = []string{"N1", "N2", "N3"}
	require.Equal(t, Holds, CheckLeases(h).Verdict)
	h.Events[1].Text = "acquire"
	require.Equal(t, Holds, CheckLeases(h).Verdict)
	h.Events[1].Text = "extend"
	require.Equal(t, Revived, CheckLeases(h).Verdict)
}

// On one node "taken" beside one's own key is the end of the story. On several the clean-up may be on its way: an exploration
// looks at what it leaves.
func TestRefusedBesideOnesOwnKeys(t *testing.T) {
	refused := func(nodes ...string) *History {
		h := &History{Nodes: nodes}
		for _, n := range nodes {
			h.Events = append(h.Events, Event{Kind: Command, Client: "A", Node: n, Key: "k", Text: "acquire", After: "A", TTL: ttl})
		}
		h.Events = append(h.Events, Event{Kind: Return, Client: "A", Key: "k", Text: Taken, Outcome: Failed})
		return h
	}
	require.Equal(t, Stuck, CheckLeases(refused("N1")).Verdict)
	require.Equal(t, Holds, CheckLeases(refused("N1", "N2", "N3")).Verdict)
	require.Equal(t, Stuck, Check(refused("N1", "N2", "N3")).Verdict, "a story is over when it is told")
	left := refused("N1", "N2", "N3")
	left.Events = append(left.Events, Event{Kind: Return, Client: "Z", Key: "k", Text: NoOneElse, Outcome: Failed})
	require.Equal(t, Stuck, CheckLeases(left).Verdict)
}
