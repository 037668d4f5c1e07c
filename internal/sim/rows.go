package sim

import (
	"fmt"
	"strings"
	"time"
)

// row is an event as a timeline shows it.
type row struct {
	Event
	guilty bool
}

// rows prepares the events for a timeline. A client that sends one command to several nodes and hears the same from them gets
// one row for all, where the first of them stands. The nodes are microseconds apart, see Client.send, which no clock of a
// timeline shows.
func rows(h *History, f Finding) []row {
	var all []row
	gone := make([]bool, len(h.Events))
	for i, e := range h.Events {
		if gone[i] {
			continue
		}
		r := row{e, i == f.Event}
		nodes := []string{e.Node}
		for j := i + 1; (e.Kind == Command || e.Kind == Expire) && j < len(h.Events) && sameInstant(e, h.Events[j]); j++ {
			if same := h.Events[j]; !gone[j] && sayTheSame(e, same) {
				gone[j] = true
				nodes = append(nodes, same.Node)
				r.guilty = r.guilty || j == f.Event
			}
		}
		r.At, r.Node = e.At.Round(time.Millisecond), strings.Join(nodes, " ")
		all = append(all, r)
	}
	return shortened(all)
}

// shortened leaves out what only repeats: of three or more instants in a row at which a client sends the same and hears the same,
// it keeps the first, and says how many there were.
func shortened(all []row) (short []row) {
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].At == all[0].At {
			n++
		}
		times := 1
		for repeats(all[:n], all[times*n:]) {
			times++
		}
		short = append(short, all[:n]...)
		if times < 3 {
			times = 1
		} else {
			last := all[(times-1)*n]
			short = append(short, row{Event: Event{At: last.At, Kind: repeated, Client: last.Client, Text: fmt.Sprintf("(%d times in all)", times)}})
		}
		all = all[times*n:]
	}
	return short
}

// repeated is the kind of a row that stands for others.
const repeated Kind = "repeated"

// repeats reports whether the rows that follow begin with the same commands, at an instant of their own.
func repeats(rows, next []row) bool {
	if len(next) < len(rows) || len(next) > len(rows) && next[len(rows)].At == next[0].At {
		return false
	}
	for i, a := range rows {
		b := next[i]
		if a.Kind != Command || b.Kind != Command || a.guilty || b.guilty || b.At != next[0].At ||
			a.Client != b.Client || a.Node != b.Node || a.Text != b.Text || a.Reply != b.Reply || keyState(a.Event) != keyState(b.Event) {
			return false
		}
	}
	return true
}

func sameInstant(a, b Event) bool {
	return a.At.Round(time.Millisecond) == b.At.Round(time.Millisecond)
}

func sayTheSame(a, b Event) bool {
	return a.Kind == b.Kind && a.Client == b.Client && a.Node != b.Node && a.Text == b.Text && a.Reply == b.Reply &&
		keyState(a) == keyState(b)
}
