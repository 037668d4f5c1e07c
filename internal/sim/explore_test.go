package sim

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func verdicts(r Report) []Verdict {
	all := []Verdict{}
	for _, c := range r.Shortest {
		all = append(all, c.Finding.Verdict)
	}
	return all
}

// Each lock breaks in its own way, and the good one in none.
func TestExploreFinds(t *testing.T) {
	tests := []struct {
		name            string
		lock            toy
		crashes, losses int
		want            []Verdict
		shortest        string
	}{
		{name: "good", lock: good, crashes: 1, want: []Verdict{}},
		{name: "blind delete", lock: blindDelete, crashes: 1, want: []Verdict{DeletedOthers}, shortest: "A.A.t.B.A"},
		{name: "get then del", lock: getThenDel, want: []Verdict{DeletedOthers}, shortest: "A.A.A.t.B.A"},
		{name: "no exclusion", lock: noExclusion, want: []Verdict{TwoValidLeases}, shortest: "A.B"},
		{name: "two commands", lock: twoCommands, crashes: 1, want: []Verdict{LeftNoTTL}, shortest: "A.A!"},
		{name: "a reply is lost", lock: good, losses: 1, want: []Verdict{Stuck}, shortest: "A~.w.A"},
	}
	for _, tt := range tests {
		if RaceDetector && tt.crashes > 0 {
			continue // the race detector keeps memory for every schedule
		}
		t.Run(tt.name, func(t *testing.T) {
			p := toyPlan("AB", tt.lock)
			p.Crashes, p.Losses = tt.crashes, tt.losses
			r := Explore(t, p)
			require.True(t, r.Exhaustive)
			require.Equal(t, tt.want, verdicts(r))
			if tt.shortest != "" {
				require.Equal(t, tt.shortest, r.Shortest[0].Schedule)
				require.Positive(t, r.Broken)
			}
		})
	}
}

// A key that nobody will ever free is found when all is over.
func TestExploreFindsStuckInTheEnd(t *testing.T) {
	never := toy{release: keep, acquire: func(c *Client, token string) (bool, error) {
		return c.Redis().SetNX(ctx, "k", token, 0).Result()
	}}
	r := Explore(t, toyPlan("A", never))
	require.Equal(t, []Verdict{Stuck}, verdicts(r))
	require.Equal(t, "A.A", r.Shortest[0].Schedule)
	require.Contains(t, r.Shortest[0].Finding.Why, "Z is refused")
}

// A bug that needs more steps is found by a schedule of exactly so many more, and replaying it shows it again.
func TestShortestCounterexample(t *testing.T) {
	most := 3
	if RaceDetector {
		most = 1
	}
	for k := range most {
		p := toyPlan("AB", slowDelete(k))
		r := Explore(t, p)
		require.Equal(t, []Verdict{DeletedOthers}, verdicts(r))
		found := r.Shortest[0]
		require.Equal(t, "A.A."+strings.Repeat("A.", k)+"t.B.A", found.Schedule)

		h, f := Replay(t, p, found.Schedule)
		require.Equal(t, found.Finding, f)
		require.Equal(t, found.History, h)
		require.Equal(t, string(found.History.JSON()), string(h.JSON()))
	}
}

// Whatever the number of processors, and however often it runs, an exploration reports the same.
func TestExploreIsDeterministic(t *testing.T) {
	p := toyPlan("AB", getThenDel)
	if !RaceDetector {
		p.Crashes = 1
	}
	for _, p := range []Plan{p, renewedPlan("AB", extendSet, true)} {
		var first Report
		for i, procs := range []int{1, 2, 2} {
			before := runtime.GOMAXPROCS(procs)
			r := Explore(t, p)
			runtime.GOMAXPROCS(before)
			r.Elapsed = 0
			if i == 0 {
				first = r
			}
			require.Equal(t, first, r)
		}
		require.Positive(t, first.States)
	}
}

// The search stops when it has run so many schedules, and says that it did.
func TestMost(t *testing.T) {
	p := toyPlan("AB", good)
	all := Explore(t, p)
	require.True(t, all.Exhaustive)
	for _, most := range []int{1, 7, all.Schedules - 1} {
		p.Most = most
		r := Explore(t, p)
		require.False(t, r.Exhaustive)
		require.Equal(t, most, r.Schedules)
	}
	p.Most = all.Schedules
	require.True(t, Explore(t, p).Exhaustive)
}

// No schedule has more crashes or lost replies than the plan allows, and some have as many.
func TestBudgets(t *testing.T) {
	for _, budget := range []int{0, 1, 2} {
		p := toyPlan("AB", good)
		p.Crashes, p.Losses = budget, 0
		require.Equal(t, budget, most(t, p, "!"))
		p.Crashes, p.Losses = 0, budget
		require.Equal(t, budget, most(t, p, "~"))
	}
}

// most walks through the schedules of up to four steps, and returns how often a mark occurs in one of them at most.
func most(t *testing.T, p Plan, mark string) int {
	count := 0
	for level, depth := [][]choice{nil}, 0; depth <= 4; depth++ {
		var next [][]choice
		for i, r := range p.runAll(t, level) {
			count = max(count, strings.Count(join(level[i]), mark))
			for _, c := range r.options {
				if c == wait || strings.HasSuffix(string(c), mark) || depth == 0 {
					next = append(next, append(level[i][:len(level[i]):len(level[i])], c))
				}
			}
		}
		level = next
	}
	return count
}

// Merging states and letting the first of the clients that have not moved go first loses no verdict.
func TestMergingIsSound(t *testing.T) {
	tests := []struct {
		clients         string
		lock            toy
		crashes, losses int
	}{
		{"AB", getThenDel, 0, 0},
		{"AB", noExclusion, 0, 0},
		{"AB", twoCommands, 1, 0},
		{"AB", impatient, 0, 0},
		{"AB", toy{acquire: setWithTTL, release: keep}, 0, 1},
		{"AB", toy{acquire: setWithTTL, release: keep}, 1, 0},
	}
	if RaceDetector {
		tests = tests[1:2] // the cheapest
	}
	for _, tt := range tests {
		p := toyPlan(tt.clients, tt.lock)
		p.Crashes, p.Losses = tt.crashes, tt.losses
		requireSound(t, p)
	}
}

func requireSound(t *testing.T, p Plan) {
	t.Helper()
	merged := Explore(t, p)
	p.plain = true
	plain := Explore(t, p)
	t.Logf("%d schedules merged, %d plain, verdicts %v", merged.Schedules, plain.Schedules, verdicts(plain))
	require.True(t, plain.Exhaustive)
	require.ElementsMatch(t, verdicts(plain), verdicts(merged))
	require.Less(t, merged.Schedules, plain.Schedules)
	for i, c := range merged.Shortest {
		require.Len(t, split(c.Schedule), len(split(plain.Shortest[i].Schedule)), "the shortest for %s", c.Finding.Verdict)
	}
}

// A renewal is a choice of its own while its client is at work, and every way to get it wrong is found.
func TestExploreFindsRenewals(t *testing.T) {
	tests := []struct {
		name, script string
		stop         bool
		want         []Verdict
		shortest     string
	}{
		{"good", extendMine, true, []Verdict{}, ""},
		{"another's key", extendAny, true, []Verdict{RenewedOthers}, "A.w.A.A'.B.w.A"},
		{"a key that is gone", extendSet, true, []Verdict{Revived, RenewedOthers}, "A.t.A'"},
		{"not stopped", extendMine, false, []Verdict{RenewsLate}, "A.A.A"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Explore(t, renewedPlan("AB", tt.script, tt.stop))
			require.True(t, r.Exhaustive)
			require.Equal(t, tt.want, verdicts(r))
			if tt.shortest != "" {
				require.Equal(t, tt.shortest, r.Shortest[0].Schedule)
			}
		})
	}
}

// The clock moves on to a renewal while its client is at work, as often as the plan says. It waits at the gate while the
// clock moves on.
func TestRenewalsAreChoices(t *testing.T) {
	p := renewedPlan("A", extendMine, true)
	p.Renewals = 1
	require.Equal(t, []choice{"A", "t", "w"}, p.run(t, split("A")).options)
	require.Equal(t, []choice{"A", "A'", "t"}, p.run(t, split("A.w")).options, "the work, and the renewal")
	require.Equal(t, []choice{"A", "A'"}, p.run(t, split("A.w.t")).options)
	require.Equal(t, p.run(t, split("A.w.t")).state, p.run(t, split("A.t")).state)

	h, _ := Replay(t, p, "A.w.t.A'")
	last := h.Events[len(h.Events)-1]
	require.Equal(t, []any{"extend", 30 * s, 20 * s}, []any{last.Text, last.At, last.Late})

	p.Renewals = 0
	require.Equal(t, []choice{"A", "t"}, p.run(t, split("A")).options)
	require.Equal(t, []choice{"A"}, p.run(t, split("A.t")).options, "the renewal is lost")
}

// Of two equal requests it matters which one arrives: the client may have given up the older one.
func TestWhenItWasSentIsState(t *testing.T) {
	p := Plan{TTL: ttl, Most: 1000, Renewals: 2, Setup: func(w *World) []Process {
		a := w.Client("A", w.Node("Redis"))
		return []Process{{Client: a, Run: func() {
			_, _ = setWithTTL(a, tokenOf(1))
			w.Record(Event{Kind: Enter, Client: "A", Key: "k", LeaseEnd: Forever})
			for _, after := range []time.Duration{10 * s, 12 * s} {
				time.AfterFunc(after, func() { a.Redis().Eval(ctx, extendMine, []string{"k"}, tokenOf(1), 1000*60) })
			}
			a.Work()
		}}}
	}}
	require.Equal(t, []choice{"A", "A'", "A''", "t"}, p.run(t, split("A.w.w")).options)
	require.NotEqual(t, p.run(t, split("A.w.w.A'")).state, p.run(t, split("A.w.w.A''")).state)
}

// Merging loses no verdict when clients renew.
func TestMergingIsSoundWithRenewals(t *testing.T) {
	if RaceDetector {
		t.Skip("too slow under the race detector")
	}
	for _, script := range []string{extendAny, extendSet} {
		requireSound(t, renewedPlan("AB", script, true))
	}
}

// Requests to several nodes stand at the gate side by side, and go one by one.
func TestExploreSeveralNodes(t *testing.T) {
	p := majorityPlan("AB", 3, 2)
	require.Equal(t, []choice{"A1", "A2", "A3"}, p.run(t, nil).options)
	p.Crashes, p.Losses = 1, 1
	require.Equal(t, []choice{"A1", "A3", "B1", "B2", "B3", "t", "A1~", "A3~", "B1~", "B2~", "B3~", "A!", "B!"}, p.run(t, split("A2")).options)

	h, f := Replay(t, p, "A3.B3.A1.A2.B1.B2")
	require.Equal(t, []string{"N3", "N3", "N1", "N2", "N1", "N2"}, nodesOf(h))
	require.Equal(t, Holds, f.Verdict)
	require.Contains(t, Timeline(h, f, false), "N2: A, 30s left")
}

func nodesOf(h *History) (nodes []string) {
	for _, e := range h.Events {
		if e.Kind == Command {
			nodes = append(nodes, e.Node)
		}
	}
	return nodes
}

// A quorum that is one short lets two in; a majority does not.
func TestExploreQuorum(t *testing.T) {
	r := Explore(t, majorityPlan("AB", 2, 1))
	require.True(t, r.Exhaustive)
	require.Equal(t, []Verdict{TwoValidLeases}, verdicts(r))
	require.Equal(t, "A1.B1.B2.A2", r.Shortest[0].Schedule)
	r = Explore(t, majorityPlan("AB", 2, 2))
	require.True(t, r.Exhaustive)
	require.Empty(t, r.Shortest)
}

// A crash ends all that its client has at the gate.
func TestCrashWithSeveralRequests(t *testing.T) {
	p := majorityPlan("AB", 2, 2)
	p.Crashes = 1
	require.Equal(t, []choice{"B1", "B2", "t"}, p.run(t, split("A2.A!")).options)
	h, _ := Replay(t, p, "A2.A!.B1.B2.t")
	require.Equal(t, []string{"N2", "N1", "N2"}, nodesOf(h))
}

// In which order one client's requests reached different nodes makes no difference, unless the plan says that
// the client looks at it. What each node answered does.
func TestNodesCommute(t *testing.T) {
	p := majorityPlan("AB", 3, 2)
	state := func(schedule string) string { return p.run(t, split(schedule)).state }
	require.Equal(t, state("A1.A2"), state("A2.A1"))
	require.Equal(t, state("A1.A2.A3"), state("A3.A1.A2"))
	require.Equal(t, state("A1.A2.B3"), state("A2.B3.A1"))
	require.NotEqual(t, state("A1.B1"), state("A1.B2"))
	require.NotEqual(t, state("A1.A2.B1.B2"), state("A1.B1.B2.A2"))

	one := Explore(t, majorityPlan("A", 3, 2))
	p.Ordered = true
	require.NotEqual(t, state("A1.A2"), state("A2.A1"))
	ordered := majorityPlan("A", 3, 2)
	ordered.Ordered = true
	require.Less(t, one.States, Explore(t, ordered).States)
}

// Merging loses no verdict on several nodes either.
func TestMergingIsSoundOnNodes(t *testing.T) {
	if RaceDetector {
		t.Skip("too slow under the race detector")
	}
	requireSound(t, majorityPlan("AB", 2, 1))
	requireSound(t, majorityPlan("A", 3, 2))
	p := majorityFor(0, "AB", 2, 2)
	p.Outages = 1
	requireSound(t, p)
	p = arriving(majorityFor(0, "AB", 2, 1))
	p.Empties = 1
	requireSound(t, p)
}

// firstAnswer is a client that believes whichever node answers first, which Ordered is for.
func firstAnswer(ordered bool) Plan {
	return Plan{
		TTL: ttl, Most: 1000, Ordered: ordered,
		Setup: func(w *World) []Process {
			a := w.Client("A", w.Node("N"))
			other := a.Connect(w.Node("O"))
			return []Process{{Client: a, Run: func() {
				first := make(chan string, 2)
				for name, rdb := range map[string]redis.UniversalClient{"N": a.Redis(), "O": other} {
					go func() {
						rdb.Get(ctx, "k")
						first <- name
					}()
				}
				name := <-first
				<-first
				a.Work()
				if name == "O" {
					w.Record(Event{Kind: Return, Client: "A", Text: NoOneElse, Outcome: Failed})
				}
			}}}
		},
	}
}

// A client that goes by the order of the answers needs a plan that says so.
func TestOrdered(t *testing.T) {
	require.Equal(t, []Verdict{Stuck}, verdicts(Explore(t, firstAnswer(true))))
	require.Empty(t, verdicts(Explore(t, firstAnswer(false))))
}

// Two requests of one client to one node have two names, and those don't depend on who came first.
func TestTwoRequestsToOneNode(t *testing.T) {
	p := Plan{TTL: ttl, Most: 1000, Losses: 1, Setup: func(w *World) []Process {
		n := w.Node("Redis")
		a := w.Client("A", n)
		return []Process{{Client: a, Run: func() {
			done := make(chan bool)
			for _, key := range []string{"j", "k", "i"} {
				go func() {
					a.Redis().Get(ctx, key)
					done <- true
				}()
			}
			for range 3 {
				<-done
			}
		}}}
	}}
	require.Equal(t, []choice{"A", "A'", "A''", "A~", "A'~", "A''~"}, p.run(t, nil).options)
	for range 10 {
		h, _ := Replay(t, p, "A''.A.A")
		var keys string
		for _, e := range h.Events {
			keys += e.Key
		}
		require.Equal(t, "kij", keys)
	}
}

// Time that passes for a client which sends nothing any more ends when it is done.
func TestWaitForTheEnd(t *testing.T) {
	p := Plan{TTL: ttl, Most: 100, Setup: func(w *World) []Process {
		a := w.Client("A", w.Node("Redis"))
		return []Process{{Client: a, Run: func() { time.Sleep(7 * s) }}}
	}}
	r := Explore(t, p)
	require.True(t, r.Exhaustive)
	require.Equal(t, 2, r.Schedules)
	require.Equal(t, 1, r.Longest)
}

// What a resource holds and who has missed a write is part of the state.
func TestExploreStaleWrite(t *testing.T) {
	p := Plan{TTL: ttl, Most: 1000, Setup: func(w *World) []Process {
		n, r := w.Node("Redis"), w.Resource("stock", 5)
		var all []Process
		for _, name := range []string{"A", "B"} {
			c := w.Client(name, n)
			all = append(all, Process{Client: c, Run: func() {
				c.Work()
				seen := c.Read(r)
				c.Work()
				c.Write(r, seen-1)
			}})
		}
		return all
	}}
	r := Explore(t, p)
	require.Equal(t, []Verdict{StaleWrite}, verdicts(r))
	require.Equal(t, "A.B.A.B", r.Shortest[0].Schedule)
	requireSound(t, p)
}

// A counter at a node is part of the state, though it is nobody's lock.
func TestCountersAreState(t *testing.T) {
	p := Plan{TTL: ttl, Most: 1000, Setup: func(w *World) []Process {
		n := w.Node("Redis")
		a, b := w.Client("A", n), w.Client("B", n)
		count := func() { a.Redis().Eval(ctx, "redis.call('INCR', KEYS[2]); return 0", []string{"k", "count"}) }
		return []Process{{Client: a, Run: count}, {Client: b, Run: func() { b.Redis().Eval(ctx, "return 0", []string{"k"}) }}}
	}}
	require.NotEqual(t, p.run(t, split("A")).state, p.run(t, nil).state)
	require.Contains(t, p.run(t, split("A")).state, "count = 1")
}

// A client whose token another one has seen keeps its name in the state: it can be told apart by it.
func TestSeenTokensKeepNames(t *testing.T) {
	p := toyPlan("ABC", impatient)
	state := p.run(t, split("A.A.B.B")).state
	require.Contains(t, state, "A: ")
	require.NotContains(t, state, "B: ")
}

// The names of clients are no part of the state, also where one is the end of another.
func TestNamesAreNotState(t *testing.T) {
	var states []string
	for _, names := range [][]string{{"A", "B"}, {"BA", "A"}, {"A", "BA"}} {
		p := toyPlan("AB", good)
		setup := p.Setup
		p.Setup = func(w *World) []Process {
			all := setup(w)
			for i := range all {
				all[i].Client.name = names[i]
			}
			return all
		}
		states = append(states, p.run(t, split(fmt.Sprintf("%s.%s.%s", names[0], names[0], names[1]))).state)
	}
	require.Equal(t, states[0], states[1])
	require.Equal(t, states[0], states[2])
}

// A majority lock holds while a minority of the nodes is lost, for good or until a restart with the data, and while replies
// get lost. Keys without a TTL keep time out of it.
func TestMajorityBearsMinority(t *testing.T) {
	if RaceDetector {
		t.Skip("too slow under the race detector")
	}
	for name, allow := range map[string]func(*Plan){
		"nothing":      func(*Plan) {},
		"an outage":    func(p *Plan) { p.Outages = 1 },
		"a lost reply": func(p *Plan) { p.Losses = 1 },
		"both":         func(p *Plan) { p.Outages, p.Losses = 1, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			p := majorityFor(0, "AB", 3, 2)
			allow(&p)
			r := Explore(t, p)
			require.True(t, r.Exhaustive)
			require.Empty(t, r.Shortest)
		})
	}
}

// What a majority lock can't bear is found when it is allowed, by a shortest schedule. So is a quorum that is one short.
func TestMajorityLimits(t *testing.T) {
	tests := []struct {
		name     string
		plan     Plan
		allow    func(*Plan)
		shortest string
	}{
		{"a restart without the data", arriving(majorityFor(0, "AB", 3, 2)), func(p *Plan) { p.Empties = 1 }, "A.A1.A2.1e.B.B1.B2.B3.A3"},
		{"a clock that jumps", majorityPlan("AB", 3, 2), func(p *Plan) { p.Jumps = 1 }, "A1.A2.B1.B3.A3.2t.B2"},
		{"a quorum one short", majorityPlan("AB", 3, 1), func(*Plan) {}, "A1.A2.B1.B2.B3.A3"},
	}
	for _, tt := range tests {
		if RaceDetector && tt.name == "a clock that jumps" {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			tt.plan.first = true
			tt.allow(&tt.plan)
			r := Explore(t, tt.plan)
			require.Equal(t, []Verdict{TwoValidLeases}, verdicts(r))
			require.Equal(t, tt.shortest, r.Shortest[0].Schedule)
			h, f := Replay(t, tt.plan, tt.shortest)
			require.Equal(t, r.Shortest[0].History, h)
			require.Equal(t, r.Shortest[0].Finding, f)
		})
	}
}

// arriving lets each client ask when the schedule says so, and not all at once: what is on its way to a node that restarts is
// lost, and who comes later is not.
func arriving(p Plan) Plan {
	setup := p.Setup
	p.Setup = func(w *World) []Process {
		all := setup(w)
		for i, one := range all {
			all[i].Run = func() {
				one.Client.Work()
				one.Run()
			}
		}
		return all
	}
	return p
}
