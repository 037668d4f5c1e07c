package story

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
)

var scheduleFlag = flag.String("schedule", "", "replay one schedule of an exploration, such as A.A.t.B.A")

// Bounds says how much an exploration goes through.
type Bounds struct {
	Clients string // one letter each: "ABC"
	Crashes int    // clients that may die, anywhere, in one schedule
	Losses  int    // replies that may be lost in one schedule

	Outages, Empties, Jumps int // what may befall nodes: see sim.Plan

	Renewals int // renewals that may arrive in one schedule, for a lock that has them

	Most int // stop after so many schedules, the shortest first; 0: go through all there are
}

// Explore runs everything that can happen when some clients each take the lock once, work, and unlock: every order of
// their commands, every moment for a TTL to end, and crashes and lost replies within the bounds. It demands exactly the
// verdicts in finds, each from the shortest schedule that leads to it; none means that the lock holds in all schedules.
//
// With -schedule=ID it replays that one schedule and shows its timeline.
func Explore(t *testing.T, number string, b Bounds, finds ...sim.Verdict) {
	t.Helper()
	ch, ok := ByNumber(number)
	require.True(t, ok)
	explore(t, ch, b, finds...)
}

func explore(t *testing.T, ch Chapter, b Bounds, finds ...sim.Verdict) {
	t.Helper()
	if sim.RaceDetector && *scheduleFlag == "" {
		b.Clients = b.Clients[:min(2, len(b.Clients))]
		if len(finds) == 0 {
			b.Most /= 4
		}
		if b.Renewals > 0 {
			b.Crashes, b.Renewals = 0, 1
		}
	}
	p := plan(ch, b)
	if *scheduleFlag != "" {
		h, f := sim.Replay(t, p, *scheduleFlag)
		fmt.Fprintf(t.Output(), "schedule %s\n\n%s", *scheduleFlag, sim.Timeline(h, f, colour()))
		return
	}
	r := sim.Once(t, func() sim.Report { return sim.Explore(t, p) })
	found := []sim.Verdict{}
	for _, c := range r.Shortest {
		found = append(found, c.Finding.Verdict)
	}
	if testing.Verbose() {
		fmt.Fprint(t.Output(), report(ch, b, r))
		fmt.Fprintf(t.Output(), "\n(%.0f schedules a second)\n", float64(r.Schedules)/r.Elapsed.Seconds())
	}
	require.True(t, r.Exhaustive || b.Most > 0, "the search stopped after %d schedules", r.Schedules)
	require.ElementsMatch(t, finds, found, "what the exploration of %s finds", ch.Dir)
}

func report(ch Chapter, b Bounds, r sim.Report) string {
	scope := "all"
	if !r.Exhaustive {
		scope = "not all"
	}
	text := fmt.Sprintf("\n%s: %d clients, each TTL ends at any moment, up to %d of them crash, up to %d replies are lost\n",
		ch.Dir, len(b.Clients), b.Crashes, b.Losses)
	if b.Outages+b.Empties+b.Jumps > 0 {
		text += fmt.Sprintf("up to %d nodes die, %d restart empty, %d clocks jump\n", b.Outages, b.Empties, b.Jumps)
	}
	if b.Renewals > 0 {
		text += fmt.Sprintf("the first %d renewals arrive, at any moment or never\n", b.Renewals)
	}
	text += fmt.Sprintf("%d schedules of up to %d steps lead to %d states, %s there are\n", r.Schedules, r.Longest, r.States, scope)
	if len(r.Shortest) == 0 {
		return text + "none of them breaks the lock\n"
	}
	text += fmt.Sprintf("%d of them break the lock\n", r.Broken)
	for _, c := range r.Shortest {
		text += fmt.Sprintf("\nthe shortest that ends with %q: -schedule=%s\n\n%s", c.Finding.Verdict, c.Schedule,
			sim.Timeline(c.History, c.Finding, colour()))
	}
	return text
}

const exploreTTL = 30 * time.Second

func plan(ch Chapter, b Bounds) sim.Plan {
	return sim.Plan{
		Crashes: b.Crashes, Losses: b.Losses, Renewals: b.Renewals, TTL: exploreTTL, Most: cmp.Or(b.Most, 200_000),
		Outages: b.Outages, Empties: b.Empties, Jumps: b.Jumps,
		Setup: func(w *sim.World) []sim.Process {
			s := newStage(w, ch)
			var all []sim.Process
			for _, name := range b.Clients {
				a := s.Actor(string(name))
				all = append(all, sim.Process{Client: a.Client, Run: a.onceThrough})
			}
			return all
		},
		Final: func(w *sim.World) {
			a := (&Stage{World: w, Redis: w.Nodes()[0], chapter: ch}).Actor("Z")
			a.Do(func() {
				k, err := a.locker.TryLock(context.Background(), "x", exploreTTL)
				if err != nil {
					a.record(sim.Event{Kind: sim.Return, Key: "lock:x", Text: sim.NoOneElse, Outcome: sim.Failed})
					return
				}
				a.keep(k)
			})
		},
	}
}

// onceThrough is what each client of an exploration does.
func (a *Actor) onceThrough() {
	ctx := context.Background()
	leaseEnd := a.stage.Now() + exploreTTL
	k, err := a.locker.TryLock(ctx, "x", exploreTTL)
	a.returned("lock:x", err)
	if err != nil {
		return
	}
	a.stage.AtEnd(func() { _ = k.Unlock(ctx) }) // its process ends with the schedule
	var left sync.Once
	leave := func(why string) {
		left.Do(func() { a.record(sim.Event{Kind: sim.Leave, Key: "lock:x", Text: why}) })
	}
	lease, tells := k.(interface{ Context() context.Context })
	if tells {
		leaseEnd = sim.Forever // it lasts until Context says otherwise
	}
	a.record(sim.Event{Kind: sim.Enter, Key: "lock:x", LeaseEnd: leaseEnd})
	if tells { // after the Enter: a lease may be over already when it is handed out
		context.AfterFunc(lease.Context(), func() { leave("(lock lost)") })
	}
	a.Work()
	leave("")
	a.returned("lock:x", k.Unlock(ctx))
}
