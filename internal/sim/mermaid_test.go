package sim

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const overrunMermaid = `
sequenceDiagram
    participant A
    participant B
    participant Redis
    A->>Redis: 0s SET NX PX 30000
    Redis-->>A: OK
    activate A
    Note over A: 0s enters
    B->>Redis: 9s SET NX PX 30000
    Redis-->>B: nil
    Note over B: 9s taken
    deactivate A
    Note over A: 29s stops before DEL
    Note over Redis: 30s A's TTL ends
    B->>Redis: 30.5s SET NX PX 30000
    Redis-->>B: OK
    activate B
    Note over B: 30.5s enters
    Note over A: 32s goes on
    rect rgba(220, 60, 60, 0.25)
    A->>Redis: 32s DEL
    Redis-->>A: 1
    Note over A: deleted another's lock
    end
    Note over Redis: 33s clock jumps by 10s
    Note over B: 34s crashes
    deactivate B
    Note over Redis: 36s set
`

// The same history as a sequence diagram.
func TestMermaid(t *testing.T) {
	h := overrun()
	text := Mermaid(h, Check(h))
	require.Equal(t, strings.TrimPrefix(overrunMermaid, "\n"), text)
	requireMermaid(t, text)
}

var mermaidLine = regexp.MustCompile(`^    (?:participant (\w+)(?: as [^;#]+)?|(?:activate|deactivate) (\w+)|Note over (\w+): [^;#]+|` +
	`(\w+)(?:->>|-->>|--x)(\w+): [^;#]+|rect rgba\([0-9., ]+\)|end)$`)

// requireMermaid checks what can be checked without Mermaid: every line is of a known form, everybody is introduced, and
// what is opened is closed.
func requireMermaid(t *testing.T, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	require.Equal(t, "sequenceDiagram", lines[0])
	known, active, boxes := map[string]bool{}, map[string]int{}, 0
	for _, line := range lines[1:] {
		m := mermaidLine.FindStringSubmatch(line)
		require.NotNil(t, m, line)
		word, who, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "participant":
			require.False(t, slices.Contains(mermaidWords, strings.ToLower(m[1])), line)
			require.False(t, known[m[1]], line)
			known[m[1]] = true
		case "activate":
			active[who]++
		case "deactivate":
			active[who]--
			require.GreaterOrEqual(t, active[who], 0, line)
		case "rect":
			boxes++
		case "end":
			boxes--
			require.Zero(t, boxes, line)
		}
		for _, name := range m[1:] {
			require.True(t, name == "" || known[name], line)
		}
	}
	require.Zero(t, boxes)
	for name, n := range active {
		require.Zero(t, n, "%s stays active", name)
	}
}

// Names that mean something to Mermaid, or hold a space, get another name for the diagram's own use.
func TestMermaidNames(t *testing.T) {
	names := []string{"end", "Note", "Loop", "1", "Node 1", "a-b", "x;y#z", "S10", "ender", "A:B", "ein Gerät", ""}
	h := &History{Clients: names, Nodes: []string{"par", "Redis 7"}}
	for _, name := range names[:len(names)-1] {
		for _, node := range h.Nodes {
			h.Events = append(h.Events, Event{Kind: Command, Client: name, Node: node, Text: "GET", Reply: "end; # no\nmore"})
		}
	}
	text := Mermaid(h, Finding{Verdict: Stuck, Event: 1})
	requireMermaid(t, text)
	require.Contains(t, text, "    participant participant1 as end\n")
	require.Contains(t, text, "    participant participant5 as Node 1\n")
	require.Contains(t, text, "    participant S10\n")
	require.Contains(t, text, "    ender->>participant13: 0s GET\n")
}

// Everything is balanced, whichever step is guilty, and whoever dies, stays inside, or never was.
func TestMermaidIsBalanced(t *testing.T) {
	h := richStory(t)
	h.Events = append(h.Events, at(200, leave("A")), at(200, leave("B")), at(201, enter("A")), at(201, enter("A")), at(202, enter("B")),
		at(203, reads("A", "stock")), at(203, writes("A", "stock")), at(203, refusal("A", "")))
	h.Events[len(h.Events)-1].Text = ""
	for i := range h.Events { // whichever is guilty
		text := Mermaid(h, Finding{Verdict: TwoHolders, Event: i})
		requireMermaid(t, text)
		require.Contains(t, text, "two holders")
	}
	requireMermaid(t, Mermaid(h, Check(&History{})))
}

// A reply that was lost has an arrow of its own.
func TestMermaidLostReply(t *testing.T) {
	h := richStory(t)
	require.Contains(t, Mermaid(h, Check(h)), "    N--xB: nil, lost\n")
}
