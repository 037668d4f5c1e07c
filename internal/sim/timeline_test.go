package sim

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// overrun is the race of chapter 2, by hand: A deletes the key that is B's by now.
func overrun() *History {
	return &History{Clients: []string{"A", "B"}, Nodes: []string{"Redis"}, Events: []Event{
		{At: 0, Kind: Call, Client: "A", Key: "lock:x", Text: "TryLock 30s"},
		{At: 0, Kind: Command, Client: "A", Node: "Redis", Key: "lock:x", Text: "SET NX PX 30000", Reply: "OK", After: "A", TTL: ttl},
		{At: 0, Kind: Enter, Client: "A", Key: "lock:x"},
		{At: 9 * s, Kind: Command, Client: "B", Node: "Redis", Key: "lock:x", Text: "SET NX PX 30000", Reply: "nil", Before: "A", After: "A", TTL: 21 * s},
		{At: 9 * s, Kind: Return, Client: "B", Key: "lock:x", Outcome: Failed, Text: Taken},
		{At: 29 * s, Kind: Leave, Client: "A", Key: "lock:x"},
		{At: 29 * s, Kind: Fault, Client: "A", Text: "stops before DEL"},
		{At: 30 * s, Kind: Expire, Node: "Redis", Key: "lock:x", Before: "A", Text: "TTL ends"},
		{At: 30*s + 500*time.Millisecond, Kind: Command, Client: "B", Node: "Redis", Key: "lock:x", Text: "SET NX PX 30000", Reply: "OK", After: "B", TTL: ttl},
		{At: 30*s + 500*time.Millisecond, Kind: Enter, Client: "B", Key: "lock:x"},
		{At: 32 * s, Kind: Fault, Client: "A", Text: goesOn},
		{At: 32 * s, Kind: Command, Client: "A", Node: "Redis", Key: "lock:x", Text: "DEL", Reply: "1", Before: "B"},
		{At: 33 * s, Kind: Fault, Node: "Redis", Text: "clock jumps by 10s"},
		{At: 34 * s, Kind: Fault, Client: "B", Text: crashes},
		{At: 36 * s, Kind: Fault, Node: "Redis", Key: "lock:x", Text: isSet, After: stranger, TTL: Forever},
	}}
}

const overrunTimeline = `
     time  A                               B                               lock:x
       0s  TryLock 30s
           SET NX PX 30000 → OK                                            A, 30s left
           ┃ enters
        ⋮  ┃
       9s  ┃                               SET NX PX 30000 → nil           A, 21s left
           ┃                               ← taken
        ⋮  ┃
      29s  leaves
           stops before DEL
        ⋮  ‖
      30s  ‖                                                               TTL ends: free
    30.5s  ‖                               SET NX PX 30000 → OK            B, 30s left
           ‖                               ┃ enters
        ⋮  ‖                               ┃
      32s  goes on                         ┃
>>         DEL → 1                         ┃                               free
        ⋮                                  ┃
      33s                                  ┃                               Redis clock jumps by
                                           ┃                               10s
        ⋮                                  ┃
      34s                                  crashes
        ⋮                                  †
      36s                                  †                               set: stranger, no
                                           †                               TTL

deleted another's lock: A deletes at 32s the key that B has owned since 30.5s.
`

// The whole picture: lanes, gaps, marks of who is inside, stopped or dead, what became of the key, and the guilty step.
func TestTimeline(t *testing.T) {
	h := overrun()
	require.Equal(t, strings.TrimPrefix(overrunTimeline, "\n"), Timeline(h, Check(h), false))
}

// Colour marks the guilty row and the verdict, and changes nothing else.
func TestTimelineColour(t *testing.T) {
	h := overrun()
	coloured := Timeline(h, Check(h), true)
	require.Equal(t, 2, strings.Count(coloured, red))
	require.Equal(t, 2, strings.Count(coloured, plain))
	require.Regexp(t, `(?m)^\x1b\[31;1m>> .*DEL → 1 .*free\x1b\[0m$`, coloured)
	require.Equal(t, Timeline(h, Check(h), false), regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(coloured, ""))

	h.Events = h.Events[:3]
	require.True(t, strings.HasSuffix(Timeline(h, Check(h), true), "\n\n"+green+"holds"+plain+"\n"))
	require.True(t, strings.HasSuffix(Timeline(h, Check(h), false), "\n\nholds\n"))
}

// With one node the last lane is called after the key, not after a resource; with several, each cell names its node.
func TestTimelineKeyLane(t *testing.T) {
	one := &History{Clients: []string{"A"}, Nodes: []string{"N"}, Events: []Event{
		{Kind: Read, Client: "A", Key: "stock", Text: "reads stock: 1"},
		{Kind: Command, Client: "A", Node: "N", Key: "k", Text: "SETNX", Reply: "1", After: "A", TTL: Forever},
	}}
	require.Regexp(t, `^     time  A +k\n`, Timeline(one, Check(one), false))
	require.Contains(t, Timeline(one, Check(one), false), " A, no TTL\n")
	one.Nodes = append(one.Nodes, "M")
	require.Regexp(t, `^     time  A +Redis\n`, Timeline(one, Check(one), false))
	require.Contains(t, Timeline(one, Check(one), false), " N: A, no TTL\n")
}

// A timeline is never wider than 96 columns, whoever takes part and whatever they say, and its columns stay columns.
func TestTimelineWidth(t *testing.T) {
	long := strings.Repeat("längere Wörter → ", 12) + strings.Repeat("x", 120) + "\n\x1b[31mred\xff"
	for clients := range 11 {
		h := &History{Nodes: []string{"a node with a very long name indeed"}}
		for i := range clients {
			h.Clients = append(h.Clients, fmt.Sprintf("client number %d with a long name", i+1))
		}
		kinds := []Kind{Call, Return, Enter, Command, Fault, Expire, Read, Write, Leave}
		for i := range 10 * clients {
			e := Event{At: time.Duration(i*i*i) * 1234567 * time.Microsecond, Kind: kinds[i%len(kinds)], Client: h.Clients[i%clients],
				Node: h.Nodes[0], Key: "k" + long, Text: long, Reply: long, After: long, TTL: 123456789 * time.Microsecond}
			if i%7 == 0 {
				e.Client = ""
			}
			h.Events = append(h.Events, e)
		}
		for guilty := -1; guilty < len(h.Events); guilty += 1 + clients {
			text := Timeline(h, Finding{Verdict: TwoHolders, Event: guilty, Why: long}, false)
			require.True(t, utf8.ValidString(text))
			require.Equal(t, guilty >= 0, strings.Contains(text, "\n>>"))
			for line := range strings.Lines(text) {
				if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > width || strings.Contains(line, "\x1b") {
					t.Fatalf("%d clients: %q", clients, line)
				}
			}
		}
	}
}

// More than four clients share a lane, and each row says whose it is.
func TestTimelineOfMany(t *testing.T) {
	h := &History{Clients: []string{"S1", "S2", "S3", "S4", "S5"}, Nodes: []string{"Redis"}, Events: []Event{
		at(0, enter("S1")), at(1, leave("S1")), at(2, enter("S5")), at(2, refusal("S2", Taken)),
	}}
	require.Equal(t, strings.Join([]string{
		"     time  who does what                               k",
		"       0s  S1: enters",
		"        ⋮",
		"       1s  S1: leaves",
		"        ⋮",
		"       2s  S5: enters",
		"           S2: ← taken",
		"", "holds", "",
	}, "\n"), Timeline(h, Check(h), false))
}

// Whoever enters twice is inside until it has left twice, in both pictures, also if it dies in between.
func TestTimelineOfNestedStay(t *testing.T) {
	h := &History{Clients: []string{"A", "B"}, Nodes: []string{"Redis"}, Events: []Event{
		at(0, enter("A")), at(1, enter("A")), at(2, leave("A")), at(2, refusal("B", Taken)), at(3, leave("A")), at(3, refusal("B", Taken)),
		at(4, enter("A")), at(5, enter("A")), at(6, Event{Kind: Fault, Client: "A", Text: crashes}), at(6, refusal("B", Taken)),
		at(7, enter("A")), at(8, leave("A")), at(8, refusal("B", Taken)),
	}}
	var inside []string
	for line := range strings.Lines(Timeline(h, Check(h), false)) {
		if strings.Contains(line, "← taken") {
			inside = append(inside, string([]rune(line)[11]))
		}
	}
	require.Equal(t, []string{"┃", " ", "†", " "}, inside)
	text := Mermaid(h, Check(h))
	requireMermaid(t, text)
	require.Contains(t, text, "activate A\n    Note over A: 1s enters\n    deactivate A\n    Note over B: 2s taken\n    deactivate A\n")
}
