package sim

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// width is how many columns a timeline takes at the most. Go's test output indents it by four more.
const width = 96

// mostLanes is how many clients get a lane of their own. With more, the client's name stands in each row instead.
const mostLanes = 4

// Timeline draws the history as text. Time goes down; each client has a lane, and the last lane is the key:
// who owns it, and for how long. The guilty step is marked ">>", and named again in the last line.
func Timeline(h *History, f Finding, colour bool) string {
	d := newDrawing(h, colour)
	d.header()
	for _, r := range rows(h, f) {
		d.event(r.Event, r.guilty)
	}
	d.flush()
	d.verdict(f)
	return d.out.String()
}

// drawing is a timeline on its way to the paper.
type drawing struct {
	h       *History
	colour  bool
	lanes   []string // clients with a lane; none if there are too many
	widths  []int
	out     strings.Builder
	last    time.Duration // time of the last row
	started bool
	state   map[string]string // client → the mark that fills its lane while it is silent
	depth   map[string]int    // client → how often it has entered and not left

	row    []string // cells of the row being put together: a call and its instant answer share one
	rowAt  time.Duration
	guilty bool
}

func newDrawing(h *History, colour bool) *drawing {
	d := &drawing{h: h, colour: colour, state: map[string]string{}, depth: map[string]int{}, last: -1}
	if len(h.Clients) <= mostLanes {
		d.lanes = h.Clients
	} else {
		d.lanes = []string{"who does what"}
	}
	const timeColumn = 11
	keyColumn := 21
	if len(h.Nodes) > 1 {
		keyColumn = 30 // the nodes stand there too
	}
	lane := (width - timeColumn - keyColumn) / max(1, len(d.lanes))
	d.widths = append(d.widths, timeColumn)
	for range d.lanes {
		d.widths = append(d.widths, min(lane, 44))
	}
	d.widths = append(d.widths, keyColumn)
	return d
}

func (d *drawing) header() {
	cells := append([]string{"     time"}, d.lanes...)
	d.print(append(cells, d.keyName()), false)
}

func (d *drawing) keyName() string {
	for _, e := range d.h.Events {
		if e.Key != "" && e.Kind != Read && e.Kind != Write && len(d.h.Nodes) == 1 {
			return e.Key
		}
	}
	return "Redis"
}

// event puts one event into its lane.
func (d *drawing) event(e Event, guilty bool) {
	text, keyText := d.words(e)
	defer d.mark(e) // from the next row on
	if text == "" && keyText == "" {
		return
	}
	d.flush()
	d.gap(e.At)
	d.rowAt, d.guilty = e.At, guilty
	d.row = make([]string, len(d.widths))
	if lane := d.laneOf(e.Client); lane > 0 {
		d.row[lane] = text
	} else if keyText == "" {
		keyText = text
	}
	d.row[len(d.row)-1] = keyText
	for i, name := range d.lanes {
		if d.row[i+1] == "" {
			d.row[i+1] = d.state[name]
		}
	}
}

func (d *drawing) laneOf(client string) int {
	if client == "" {
		return 0
	}
	if len(d.h.Clients) > mostLanes {
		return 1
	}
	for i, name := range d.lanes {
		if name == client {
			return i + 1
		}
	}
	return 0
}

// words says in few words what happened to the client, and what became of the key.
func (d *drawing) words(e Event) (client, key string) {
	switch e.Kind {
	case Command:
		client, key = e.Text+" → "+e.Reply, d.at(e.Node)+keyState(e)
		if e.Late > 0 {
			client = fmt.Sprintf("%s (sent %s) → %s", e.Text, clock(e.At-e.Late), e.Reply)
		}
	case Expire:
		key = d.at(e.Node) + e.Text + ": free"
	case Enter:
		client = "┃ enters"
	case Leave:
		client = strings.TrimSpace("leaves " + e.Text)
	case Return:
		if e.Outcome != OK { // a success shows in what the client does next
			client = "← " + e.Text
		}
	default:
		client = e.Text
	}
	switch {
	case e.Kind == Fault && e.Key != "": // the key was set
		client, key = "", d.at(e.Node)+e.Text+": "+keyState(e)
	case e.Kind == Fault && e.Client == "":
		client, key = "", e.Node+" "+e.Text
	}
	if client != "" && e.Client != "" && len(d.h.Clients) > mostLanes {
		client = e.Client + ": " + strings.TrimPrefix(client, "┃ ")
	}
	return client, key
}

// at says at which node, if there are several.
func (d *drawing) at(node string) string {
	if len(d.h.Nodes) > 1 {
		return node + ": "
	}
	return ""
}

func keyState(e Event) string {
	switch {
	case e.After == "":
		return "free"
	case e.TTL == Forever:
		return e.After + ", no TTL"
	}
	return e.After + ", " + clock(e.TTL) + " left"
}

// mark remembers what a client's lane shows from now on while nothing happens in it.
func (d *drawing) mark(e Event) {
	switch {
	case e.Kind == Enter:
		d.depth[e.Client]++
		d.state[e.Client] = "┃"
	case e.Kind == Leave:
		if d.depth[e.Client]--; d.depth[e.Client] <= 0 { // whoever has entered twice is still inside
			d.depth[e.Client], d.state[e.Client] = 0, ""
		}
	case e.Kind != Fault || e.Client == "":
	case e.Text == crashes:
		d.depth[e.Client], d.state[e.Client] = 0, "†"
	case e.Text == freezes, strings.HasPrefix(e.Text, "stops "):
		d.state[e.Client] = strings.TrimSpace(d.state[e.Client] + " ‖")
	case e.Text == thaws, e.Text == goesOn:
		d.state[e.Client] = strings.TrimSpace(strings.TrimSuffix(d.state[e.Client], "‖"))
	}
}

// gap shows that time passes.
func (d *drawing) gap(at time.Duration) {
	if !d.started || at-d.last < time.Second {
		return
	}
	cells := make([]string, len(d.widths))
	cells[0] = "        ⋮"
	for i, name := range d.lanes {
		cells[i+1] = d.state[name]
	}
	d.print(cells, false)
}

// flush prints the row that was put together.
func (d *drawing) flush() {
	if d.row == nil {
		return
	}
	if d.rowAt != d.last || !d.started {
		d.row[0] = fmt.Sprintf("%9s", shortClock(d.rowAt))
	}
	d.last, d.started = d.rowAt, true
	d.print(d.row, d.guilty)
	d.row = nil
}

// shortClock is clock in eight columns, which leaves two of the time column for the mark of the guilty step.
func shortClock(t time.Duration) string {
	text := clock(t)
	if utf8.RuneCountInString(text) > 7 {
		text = clock(t.Round(time.Second))
	}
	return text
}

// print writes a row. What does not fit into the last column, which is about the key, goes on below.
func (d *drawing) print(cells []string, guilty bool) {
	last := len(cells) - 1
	var line strings.Builder
	for i, cell := range cells[:last] {
		line.WriteString(pad(cell, d.widths[i]))
	}
	here, below := fold(cells[last], d.widths[last]-1)
	text := strings.TrimRight(line.String()+pad(here, d.widths[last]), " ")
	if guilty {
		text = ">>" + strings.TrimPrefix(text, "  ")
		if d.colour {
			text = red + text + plain
		}
	}
	d.out.WriteString(text + "\n")
	if below == "" {
		return
	}
	more := make([]string, len(cells))
	for i, name := range d.lanes {
		more[i+1] = d.state[name]
	}
	more[last] = below
	d.print(more, false)
}

func foldAll(s string, n int) (lines []string) {
	for s != "" {
		var line string
		line, s = fold(s, n)
		lines = append(lines, line)
	}
	return lines
}

// fold splits a text at a space so that the first part fits into n columns.
func fold(s string, n int) (here, below string) {
	runes := []rune(s)
	if len(runes) <= n {
		return s, ""
	}
	for i := n; i > 0; i-- {
		if runes[i] == ' ' {
			return string(runes[:i]), strings.TrimLeft(string(runes[i:]), " ")
		}
	}
	return string(runes[:n]), string(runes[n:])
}

const red, green, plain = "\x1b[31;1m", "\x1b[32;1m", "\x1b[0m"

func (d *drawing) verdict(f Finding) {
	text := string(f.Verdict) + ": " + f.Why
	if f.Verdict == Holds {
		text = string(f.Verdict)
	}
	text = strings.Join(foldAll(oneLine(text), width), "\n")
	if d.colour {
		c := red
		if f.Verdict == Holds {
			c = green
		}
		text = c + text + plain
	}
	d.out.WriteString("\n" + text + "\n")
}

// pad fills a cell up to its column's width, or cuts it, so that columns stay columns.
func pad(s string, n int) string {
	s = oneLine(s)
	size := utf8.RuneCountInString(s)
	if size >= n {
		return string([]rune(s)[:n-2]) + "… "
	}
	return s + strings.Repeat(" ", n-size)
}

// oneLine keeps control characters out: an error's text may hold any.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
