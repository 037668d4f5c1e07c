package main

import (
	"slices"
	"time"
)

// history is what the workers have told, in the order in which it came in.
type history []event

func (h history) count(ok func(event) bool) int {
	n := 0
	for _, e := range h {
		if ok(e) {
			n++
		}
	}
	return n
}

func (h history) all(kind what) int { return h.count(func(e event) bool { return e.What == kind }) }

// told reports whether the worker has said this.
func (h history) told(worker int, kind what) bool {
	return h.count(func(e event) bool { return e.Worker == worker && e.What == kind }) > 0
}

// others counts what was said by workers other than the first.
func (h history) others(kind what) int {
	return h.count(func(e event) bool { return e.Worker != 0 && e.What == kind })
}

// allRefused reports whether each worker but the first has been refused at least n times.
func (h history) allRefused(workers, n int) bool {
	times := make([]int, workers)
	for _, e := range h {
		if e.What == refused {
			times[e.Worker]++
		}
	}
	return slices.Min(times[1:]) >= n
}

// figures are what a run comes to.
type figures struct {
	Sold     int           `json:"sold"`
	Oversold int           `json:"oversold"` // sold more than there was
	Together int           `json:"together"` // the most workers that were inside at one time
	Told     int           `json:"told"`     // visits that ended because the lease told its holder to stop
	Refused  int           `json:"refused"`  // stale writes that the shop has refused
	Failed   int           `json:"failed"`   // visits in which the shop did not answer
	Idle     time.Duration `json:"idle_ns"`  // the longest time in which nobody was inside
}

func (h history) figures() figures {
	f := figures{Sold: h.all(sold), Told: h.all(lost), Refused: h.all(stale), Failed: h.all(failed)}
	f.Oversold = max(0, f.Sold-items)
	f.Together, f.Idle = h.visits()
	return f
}

// visits goes through all times at which somebody entered or left.
func (h history) visits() (together int, idle time.Duration) {
	type step struct {
		at   int64
		more int
	}
	var steps []step
	for _, e := range h {
		if e.At != 0 { // it ends a visit
			steps = append(steps, step{e.Enter, +1}, step{e.At, -1})
		}
	}
	slices.SortFunc(steps, func(a, b step) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.more - b.more // leave before entering
	})
	inside := 0
	for i, s := range steps {
		if inside == 0 && i > 0 {
			idle = max(idle, time.Duration(s.at-steps[i-1].at))
		}
		inside += s.more
		together = max(together, inside)
	}
	return together, idle
}
