package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/redislock/internal/redistest"
)

// small is enough to see that the right things are counted. It says nothing about how long they take.
var small = scale{
	rounds: 2, batch: 5,
	waiters: 4, races: 1, race: 300 * time.Millisecond,
	fiveRounds: 1, fiveBatch: 3, fiveTime: 100 * time.Millisecond,
	handovers: 1, pairs: 2, hold: 20 * time.Millisecond,
	leases: 20, leaseTTL: 4500 * time.Millisecond,
}

// cell is a figure in a table.
func cell(t *testing.T, out table, row, column string) float64 {
	t.Helper()
	for _, r := range out.rows {
		for i, head := range out.head {
			if r[0] == row && head == column {
				n, err := strconv.ParseFloat(strings.TrimSuffix(r[i], "%"), 64)
				must(t, err)
				return n
			}
		}
	}
	t.Fatalf("no %q of %q in\n%s", column, row, out)
	return 0
}

func within(t *testing.T, out table, row, column string, least, most float64) {
	t.Helper()
	if n := cell(t, out, row, column); !(least <= n && n <= most) {
		t.Errorf("%s of %s is %g, not from %g to %g:\n%s", column, row, n, least, most, out)
	}
}

// What counts as a request is what Redis itself says that its clients have sent.
func TestRequestsAreThoseThatRedisSees(t *testing.T) {
	one := start(t, 1)
	pools, meter := one.pools(t), one.meter(t)
	for _, l := range []lock{
		raw("raw", pools[0], ttl, directly), raw("raw, in goroutines", pools[0], ttl, aside), lock03(pools[0], ttl), lock04(pools[0], ttl), lock05(pools[0], ttl), lock06(t, pools, ttl), lock07(t, pools, ttl),
		lockRedsync(pools, ttl), lockBsm(pools[0], ttl), lockRueidis(t, one[0].Addr(), ttl),
	} {
		user := l.join()
		must(t, user.once(ctx, "warm"))
		seen := monitor(t, one[0])
		before := meter.requests(l.sends)
		must(t, user.once(ctx, "order:1"))
		free, err := user.wait(ctx, "order:2")
		must(t, err)
		must(t, free(ctx))
		counted := meter.requests(l.sends) - before
		must(t, meter.truth[0].Echo(ctx, "the end").Err())
		if all := seen(); float64(len(all)) != counted {
			t.Errorf("%s: %g requests are counted, and these were sent:\n%s", l.name, counted, strings.Join(all, "\n"))
		}
	}
}

// setup is what clients send once for each connection, and the meter.
var setup = map[string]bool{`"hello"`: true, `"client"`: true, `"info"`: true}

// monitor collects the requests of locks, until it sees the end.
func monitor(t *testing.T, s *redistest.Server) func() []string {
	c, err := net.Dial("tcp", s.Addr())
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	lines := bufio.NewScanner(c)
	fmt.Fprint(c, "MONITOR\r\n")
	lines.Scan() // OK
	return func() (all []string) {
		for lines.Scan() {
			source, command, _ := strings.Cut(lines.Text(), "] ")
			switch name, _, _ := strings.Cut(strings.ToLower(command), " "); {
			case name == `"echo"`:
				return all
			case setup[name] || strings.HasSuffix(source, " lua"):
			default:
				all = append(all, command)
			}
		}
		t.Fatalf("MONITOR has ended: %v", lines.Err())
		return nil
	}
}

// A lock costs two requests, and fencing a third.
func TestUncontended(t *testing.T) {
	out := uncontended(t, small)
	for _, row := range []string{"raw", "raw, in goroutines", "03", "04", "05", "06, one node", "redsync", "bsm/redislock", "rueidislock"} {
		within(t, out, row, "requests", 2, 2)
	}
	within(t, out, "07, one node", "requests", 3, 3)
	within(t, out, "raw", "time, × raw", 1, 1)
	within(t, out, "raw", "allocations", 5, 50)
	within(t, out, "raw", "bytes sent", 100, 500)
	if len(out.budgets) != 4 {
		t.Error(out)
	}
}

// Everybody gets the lock, one at a time, and it takes at least two requests each time.
func TestContended(t *testing.T) {
	out := contended(t, small)
	for _, row := range out.rows {
		least := 2.0
		if strings.Contains(row[0], "five nodes") {
			least = 6 // at least a majority's
		}
		within(t, out, row[0], "requests each", least, 1000)
		within(t, out, row[0], "acquisitions, × alone", 0.001, 100)
		within(t, out, row[0], "fairness", 1/float64(small.waiters), 1)
	}
}

// A majority lock asks all five nodes. What the fencing adds goes to those that have granted the lock. A machine that stands
// still for a moment makes a lock try again.
func TestFiveNodes(t *testing.T) {
	out := fiveNodes(t, small)
	within(t, out, "06", "requests", 10, 20)
	within(t, out, "07", "requests", 13, 30)
	within(t, out, "redsync", "requests", 10, 20)
	if len(out.rows) != 4 || len(out.budgets) != 3 {
		t.Error(out)
	}
}

// The weather is what it is called.
func TestWeathers(t *testing.T) {
	nodes := start(t, 5)
	all := weathers(t, nodes)
	ask := func(w weather, node int) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		began := time.Now()
		err := w.pools[node].Exists(ctx, "x").Err()
		return time.Since(began), err
	}
	hung, slow := all[1], all[2]
	hung.begin()
	if _, err := ask(hung, 4); err == nil {
		t.Error("the last node answers while it hangs")
	}
	hung.calm()
	for node := range nodes {
		if _, err := ask(hung, node); err != nil {
			t.Errorf("node %d: %v", node+1, err)
		}
	}
	for node := range 2 {
		if took, err := ask(slow, node); err != nil || took < slowness {
			t.Errorf("node %d: %v, %v", node+1, took, err)
		}
	}
}

// What is left behind is counted on all nodes, once, and the counts of chapter 7 are not.
func TestLeftBehind(t *testing.T) {
	nodes := start(t, 2)
	meter := nodes.meter(t)
	for _, key := range []string{"lock:a", "b", "fence:{lock:a}"} {
		must(t, meter.truth[1].Set(ctx, key, "x", 0).Err())
	}
	must(t, meter.truth[0].Set(ctx, "lock:a", "x", 0).Err())
	if first, second := meter.leftBehind(), meter.leftBehind(); first != 3 || second != 0 {
		t.Error(first, second)
	}
}

// The gap ends when the next one has the lock, and it has waited for it.
func TestHandOver(t *testing.T) {
	out := handOver(t, small)
	for _, row := range out.rows {
		within(t, out, row[0], "max", 0, 10_000)
		if cell(t, out, row[0], "p50, × raw") == 0 && row[0] != "rueidislock" {
			t.Errorf("%s:\n%s", row[0], out)
		}
	}
}

// A held lease is renewed once in each interval, on every node.
func TestHeld(t *testing.T) {
	out := held(t, small)
	for _, row := range []string{"04", "05", "rueidislock"} {
		within(t, out, row, "× one each interval", 0.5, 1.5)
	}
	within(t, out, "06, three nodes", "× one each interval", 1.5, 4.5)
	within(t, out, "04", "goroutines each", 1, 1)
}

// Whatever ends a play, the stage is cleared.
func TestStageIsCleared(t *testing.T) {
	for name, play := range map[string]func(redistest.T){
		"returns": func(redistest.T) {},
		"fails":   func(t redistest.T) { must(t, context.Canceled) },
	} {
		cleared := false
		err := onStage(func(t redistest.T) {
			t.Cleanup(func() { cleared = true })
			play(t)
		})
		if !cleared || errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, cleared: %v", name, err, cleared)
		}
		if (err != nil) != (name == "fails") {
			t.Error(name, err)
		}
	}
}

func TestFigures(t *testing.T) {
	for i, c := range []struct{ got, want float64 }{
		{median([]float64{3, 1, 2}), 2},
		{quantile([]float64{4, 2, 3, 1}, 0.99), 4},
		{quantile([]float64{1, 2, 3, 4}, 1), 4},
		{mean([]float64{1, 2, 6}), 3},
		{jain([]float64{5, 5, 5, 5}), 1},
		{jain([]float64{8, 0}), 0.5},
		{jain([]float64{0, 0}), 0},
		{against([]float64{6, 9}, []float64{3, 2})[1], 4.5},
	} {
		if c.got != c.want {
			t.Errorf("%d: %g, not %g", i, c.got, c.want)
		}
	}
}

// Only what stands between the marks of a block that has been made anew is replaced.
func TestFill(t *testing.T) {
	const page = "Before.\n\n<!-- bench:one -->\nold\n\nold\n<!-- /bench -->\n\n<!-- bench:two -->\nkept\n<!-- /bench -->\nAfter.\n"
	const want = "Before.\n\n<!-- bench:one -->\nnew\n<!-- /bench -->\n\n<!-- bench:two -->\nkept\n<!-- /bench -->\nAfter.\n"
	if got := fill(page, map[string]string{"one": "new\n"}); got != want {
		t.Error(got)
	}
}

func TestBudget(t *testing.T) {
	var out table
	out.budget("a", 1.1, 1.1)
	out.budget("b", 1.2, 1.1)
	if out.budgets[0][3] != "within" || out.budgets[1][3] != "over" {
		t.Error(out.budgets)
	}
}
