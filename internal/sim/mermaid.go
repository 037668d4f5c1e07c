package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Mermaid draws the history as a sequence diagram for Markdown. The guilty step stands in a tinted box that is
// readable on a light page and on a dark one.
func Mermaid(h *History, f Finding) string {
	d := &diagram{active: map[string]int{}, ids: map[string]string{}}
	d.lines = append(d.lines, "sequenceDiagram")
	for _, name := range slices.Concat(h.Clients, h.Nodes) {
		d.participant(name)
	}
	for i, e := range h.Events {
		guilty := i == f.Event
		if guilty {
			d.add("rect rgba(220, 60, 60, 0.25)")
		}
		d.event(e)
		if guilty {
			d.note(e, string(f.Verdict))
			d.add("end")
		}
	}
	for _, name := range h.Clients {
		d.deactivate(name)
	}
	return strings.Join(d.lines, "\n") + "\n"
}

// diagram is a Mermaid diagram on its way to the paper.
type diagram struct {
	lines  []string
	ids    map[string]string // participant → what the diagram calls it
	active map[string]int    // client → how often it has entered and not left
}

func (d *diagram) add(format string, args ...any) {
	d.lines = append(d.lines, "    "+fmt.Sprintf(format, args...))
}

// plainID is a name that Mermaid takes as it is, unless it is a word of its language.
var plainID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

var mermaidWords = strings.Fields("activate actor alt and as autonumber box break create critical deactivate destroy else " +
	"end left link links loop note opt option over par participant properties rect right sequenceDiagram title")

// participant introduces somebody. A name that means something to Mermaid is only shown, and another one used.
func (d *diagram) participant(name string) {
	if plainID.MatchString(name) && !slices.ContainsFunc(mermaidWords, func(w string) bool { return strings.EqualFold(w, name) }) {
		d.ids[name] = name
		d.add("participant %s", name)
		return
	}
	d.ids[name] = "participant" + strconv.Itoa(len(d.ids)+1)
	d.add("participant %s as %s", d.ids[name], mermaidText(name))
}

func (d *diagram) event(e Event) {
	at := clock(e.At) + " "
	client, node := d.ids[e.Client], d.ids[e.Node]
	switch e.Kind {
	case Command:
		arrow := "-->>"
		if strings.HasSuffix(e.Reply, ", lost") {
			arrow = "--x"
		}
		d.add("%s->>%s: %s", client, node, mermaidText(at+e.Text))
		d.add("%s%s%s: %s", node, arrow, client, mermaidText(e.Reply))
	case Expire:
		text := e.Text
		if e.Before != "" {
			text = e.Before + "'s " + text
		}
		d.note(e, at+text)
	case Enter:
		d.active[e.Client]++
		d.add("activate %s", client)
		d.note(e, at+"enters")
	case Leave:
		if d.active[e.Client] > 0 {
			d.active[e.Client]--
			d.add("deactivate %s", client)
		}
	case Fault:
		d.note(e, at+e.Text)
		if e.Text == crashes {
			d.deactivate(e.Client)
		}
	case Read, Write:
		d.note(e, at+e.Text)
	case Return:
		if e.Outcome != OK {
			d.note(e, at+e.Text)
		}
	}
}

// note puts a text over whoever an event is about.
func (d *diagram) note(e Event, text string) {
	who := d.ids[e.Client]
	if who == "" {
		who = d.ids[e.Node]
	}
	d.add("Note over %s: %s", who, mermaidText(text))
}

func (d *diagram) deactivate(client string) {
	for ; d.active[client] > 0; d.active[client]-- {
		d.add("deactivate %s", d.ids[client])
	}
}

// mermaidText keeps characters out that mean something to the diagram's syntax.
func mermaidText(s string) string {
	s = strings.TrimSpace(strings.NewReplacer(";", ",", "#", "no. ").Replace(oneLine(s)))
	if s == "" {
		return "(empty)"
	}
	return s
}
