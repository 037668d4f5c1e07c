// Package contract is what every chapter's lock promises, as tests.
//
// A promise is a function that drives a lock through a fault and says what it finds wrong. It runs twice: in the virtual
// world of internal/sim, where time and every message are under control, and against a real redis-server behind a TCP
// proxy, which nobody wrote for the occasion. Both are a Rig, so the promise does not know which one it has.
//
// Each promise looks at two things: what the call returned, and what is in Redis afterwards.
//
// The locks of the first chapters break some promises on purpose. The table in flaws.go says which, and how. A declared
// flaw is asserted like a kept promise: one that no longer shows up, or shows up differently, is a failure.
//
// The names start with the kind of fault: A is about acquiring, R about releasing, U about wrong use.
package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.com/redislock/internal/redistest"
	"example.com/redislock/internal/sim"
)

// promise is one thing that a lock must get right.
type promise struct {
	name  string
	keep  func(t *trial)
	since string // the first chapter that promises it, if not all do
	on    string // "virtual" or "real", if it makes sense on one of them only
}

// promises lists all of them, one table after the other.
func promises() []promise {
	return slices.Concat(acquiring, waiting, releasing, doing, wrongUse)
}

// Run checks every promise for one chapter, such as "03", on both back ends.
func Run(t *testing.T, number string) {
	t.Helper()
	ch := chapterOf(t, number)
	t.Run("virtual", func(t *testing.T) {
		each(t, ch, "virtual", func(t *testing.T, try func(Rig)) string {
			h := sim.Run(t, func(w *sim.World) { try(newVirtual(w)) })
			return strings.TrimSuffix(sim.Timeline(h, sim.Check(h), false), "\nholds\n") // the complaint says more
		})
	})
	t.Run("real", func(t *testing.T) {
		server := newServer(t)
		each(t, ch, "real", func(t *testing.T, try func(Rig)) string {
			rig := newReal(t, server)
			defer rig.repair()
			try(rig)
			return ""
		})
	})
}

// each runs the promises of one chapter, each as a subtest with a rig of its own. withRig returns the timeline of what
// happened, if there is one: it stands under a complaint.
func each(t *testing.T, ch chapter, backEnd string, withRig func(*testing.T, func(Rig)) string) {
	for _, p := range promises() {
		if p.since > ch.Number() || p.on != "" && p.on != backEnd {
			continue
		}
		declared := flaws[ch.Number()][p.name]
		name := p.name
		if declared != nil {
			name += "=breaks"
		}
		t.Run(name, func(t *testing.T) {
			tr := &trial{ch: ch}
			happened := withRig(t, func(r Rig) {
				tr.Rig = r
				defer tr.end()
				p.keep(tr)
			})
			if complaint := compare(declared, tr.violations()); complaint != "" {
				t.Errorf("%s: %s\n%s\n%s", ch.Dir, complaint, tr.details(), happened)
			}
		})
	}
}

// compare says what is wrong with what was found, "" if nothing is.
func compare(declared, found []string) string {
	switch {
	case slices.Equal(declared, found):
		return ""
	case len(declared) == 0:
		return "the promise is broken:\n" + list(found)
	case len(found) == 0:
		return "this flaw is declared, and does not show up any more:\n" + list(declared)
	}
	return "the promise is broken in another way than declared. Declared:\n" + list(declared) + "Found:\n" + list(found)
}

func list(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "  - %s\n", line)
	}
	return b.String()
}

// newServer starts the server that all real trials of a chapter share. It keeps its data over a restart.
func newServer(t *testing.T) *redistest.Server {
	return redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
}
