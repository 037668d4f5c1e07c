package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// report is where the demo says what it does: a log, and on a terminal a line that lives below it.
type report struct {
	io.Writer
	live bool
	copy io.Writer // gets the log as well, if there is one

	mu    sync.Mutex
	scene string
	since time.Time
}

func newReport(f *os.File) *report {
	info, err := f.Stat()
	return &report{Writer: f, live: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// line writes to the log.
func (r *report) line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wipe()
	fmt.Fprintf(r, format+"\n", args...)
	if r.copy != nil {
		fmt.Fprintf(r.copy, format+"\n", args...)
	}
}

// begin names the scene that the live line is about.
func (r *report) begin(a act, l lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scene, r.since = fmt.Sprintf("act %s, %s", a.name, l.name), time.Now()
}

// now says on the live line what is happening.
func (r *report) now(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live {
		r.wipe()
		fmt.Fprintf(r, "%s: %s (%.1fs)", r.scene, what, time.Since(r.since).Seconds())
	}
}

func (r *report) wipe() {
	if r.live {
		fmt.Fprint(r, "\r\x1b[K")
	}
}

// result is one line with all figures.
func (r *report) result(x result) {
	line := fmt.Sprintf("  %-16s sold %4d  %-13s %2d inside at once  %d told to stop  %d refused  idle %4.1fs  took %4.1fs",
		x.Lock, x.Sold, x.verdict(), x.Together, x.Told, x.Refused, x.Idle.Seconds(), x.Took.Seconds())
	if !x.AsSaid {
		line += "  NOT AS DOCUMENTED"
	}
	if x.Kept != "" {
		line += "\n    kept in " + x.Kept
	}
	if x.Error != "" {
		line += "\n    " + strings.ReplaceAll(x.Error, "\n", "\n    ")
	}
	r.line("%s", line)
}

func (x result) verdict() string {
	switch {
	case x.Error != "":
		return "failed"
	case x.Oversold > 0:
		return fmt.Sprintf("oversold %d", x.Oversold)
	}
	return "holds"
}

// cell is a result in the table.
func (x result) cell() string {
	text := x.verdict()
	if x.Refused > 0 {
		text += fmt.Sprintf(", %d refused", x.Refused)
	}
	if x.Idle > time.Second/2 {
		text += fmt.Sprintf(", idle %.1fs", x.Idle.Seconds())
	}
	if x.Embedded {
		text += " *"
	}
	return text
}

// table shows all results, a lock to a line and an act to a column.
func (r *report) table(results []result, o options) {
	cells := map[[2]string]string{}
	for _, x := range results {
		cells[[2]string{x.Lock, x.Act}] = x.cell()
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, a := range o.acts {
		fmt.Fprintf(t, "\t%s %s", a.name, a.short)
	}
	for _, l := range o.locks {
		if !slices.ContainsFunc(results, func(x result) bool { return x.Lock == l.name }) {
			continue
		}
		fmt.Fprintf(t, "\n%s", l.name)
		for _, a := range o.acts {
			fmt.Fprintf(t, "\t%s", cmp.Or(cells[[2]string{l.name, a.name}], "-"))
		}
	}
	_ = t.Flush()
	if o.embedded {
		b.WriteString("\n\n* on embedded nodes, with short leases in act 4")
	}
	r.line("\n%s\n\nOversold: sold more than the %d that there were. Refused: late writes that the shop did not take.\n"+
		"Idle: the longest time nobody was inside, if that is over half a second.", b.String(), items)
}
