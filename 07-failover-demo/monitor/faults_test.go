package monitor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	saferelease "example.com/redislock/03-safe-release"
	watchdog "example.com/redislock/04-watchdog"
	redlock "example.com/redislock/06-redlock"
	monitor "example.com/redislock/07-failover-demo/monitor"
	"example.com/redislock/internal/sim"
)

// scene is one Redis, a Monitor, and processes that report to it.
type scene struct {
	*sim.World
	t    *testing.T
	node *sim.Node
	m    *monitor.Monitor
}

// process is one that uses a lock of chapter H.
type process[H monitor.Handle] struct {
	*sim.Client
	s     *scene
	locks *monitor.Locker[H]
	k     *monitor.Lock[H]
}

func (s *scene) hooked(name string) *sim.Client {
	c := s.Client(name, s.node)
	c.Redis().AddHook(s.m.Hook("redis"))
	return c
}

func (s *scene) with03(name string) *process[*saferelease.Lock] {
	c := s.hooked(name)
	return &process[*saferelease.Lock]{Client: c, s: s, locks: monitor.Wrap(s.m, "orders", saferelease.New(c.Redis()), errs03)}
}

func (s *scene) with04(name string, opts ...watchdog.Option) *process[*watchdog.Lock] {
	c := s.hooked(name)
	return &process[*watchdog.Lock]{Client: c, s: s, locks: monitor.Wrap(s.m, "orders", watchdog.New(c.Redis(), opts...), errs04)}
}

// lock waits for the lock for up to ten seconds.
func (p *process[H]) lock() {
	p.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if k, err := p.locks.Lock(ctx, "order:1", lease); err == nil {
			p.k = k
			p.s.AtEnd(func() { _ = k.Handle().Unlock(context.Background()) })
		}
	})
}

func (p *process[H]) unlock() { p.Do(func() { _ = p.k.Unlock(ctx) }) }

// fault is something that an operator should be able to see. It moves the numbers that are listed for it in README.md,
// and no others, and raises the alerts.
type fault struct {
	name   string
	stage  func(s *scene)
	until  time.Duration
	alerts string
}

var faults = []fault{
	{"All is well", func(s *scene) {
		a, b := s.with04("A"), s.with04("B")
		a.lock()
		s.At(12 * time.Second)
		b.lock()
		s.At(15 * time.Second)
		a.unlock()
		s.At(30 * time.Second)
		b.unlock()
	}, 40 * time.Second, ""},

	{"Redis is down", func(s *scene) {
		a, b := s.with04("A"), s.with04("B")
		a.lock()
		s.At(2 * time.Second)
		s.node.Crash()
		s.At(12 * time.Second)
		b.lock()
		s.At(35 * time.Second)
		a.unlock()
	}, 60 * time.Second, "Lost NodeFailing SuccessRateLow"},

	{"Redis hangs", func(s *scene) {
		a, b := s.with04("A"), s.with04("B")
		a.lock()
		s.At(2 * time.Second)
		s.node.Hang()
		s.At(12 * time.Second)
		b.lock()
		s.At(35 * time.Second)
		a.unlock()
	}, 60 * time.Second, "Lost NodeFailing SuccessRateLow"},

	{"Redis refuses to write", func(s *scene) {
		a, b := s.with04("A"), s.with04("B")
		a.lock()
		s.At(2 * time.Second)
		s.node.Refuse("READONLY You can't write against a read only replica.")
		s.At(12 * time.Second)
		b.lock()
		s.At(35 * time.Second)
		a.unlock()
	}, 60 * time.Second, "Lost NodeFailing SuccessRateLow"},

	{"A holder never unlocks", func(s *scene) {
		a, b := s.with04("A"), s.with04("B")
		a.lock()
		s.At(12 * time.Second)
		b.lock()
	}, 6 * time.Minute, "HeldTooLong SuccessRateLow"},

	{"A holder never unlocks, and the lock has a longest hold", func(s *scene) {
		a, b := s.with04("A", watchdog.WithMaxHold(2*time.Minute)), s.with04("B")
		a.lock()
		s.At(12 * time.Second)
		b.lock()
	}, 6 * time.Minute, "Lost SuccessRateLow"},

	{"Work outlives the TTL, chapter 03", func(s *scene) {
		a, b := s.with03("A"), s.with03("B")
		a.lock()
		s.At(25 * time.Second)
		b.lock() // gets it at 30s
		s.At(45 * time.Second)
		a.unlock()
		s.At(50 * time.Second)
		b.unlock()
	}, 60 * time.Second, "Lost"},

	{"A holder never unlocks, chapter 03", func(s *scene) {
		a, b := s.with03("A"), s.with03("B")
		a.lock()
		s.At(25 * time.Second)
		b.lock()
		s.At(45 * time.Second)
		b.unlock()
	}, 6 * time.Minute, "Lost"},

	{"The key is evicted or deleted", func(s *scene) {
		a := s.with04("A")
		a.lock()
		s.At(12 * time.Second)
		s.node.Delete("lock:order:1")
		s.At(35 * time.Second)
		a.unlock()
	}, 60 * time.Second, "Lost"},

	{"The key is evicted or deleted, chapter 03", func(s *scene) {
		a := s.with03("A")
		a.lock()
		s.At(12 * time.Second)
		s.node.Delete("lock:order:1")
		s.At(20 * time.Second)
		a.unlock()
	}, 60 * time.Second, "Lost"},

	{"The key is overwritten", func(s *scene) {
		a := s.with04("A")
		a.lock()
		s.At(12 * time.Second)
		s.node.Set("lock:order:1", "a stranger's", time.Minute)
		s.At(35 * time.Second)
		a.unlock()
	}, 60 * time.Second, "Lost"},

	{"A failover loses the key, and another process takes it", func(s *scene) {
		a, b := s.with04("A"), s.with04("B")
		a.lock()
		s.At(12 * time.Second)
		s.node.Restart(false)
		s.At(13 * time.Second)
		b.lock()
		s.At(25 * time.Second)
		a.unlock()
		s.At(30 * time.Second)
		b.unlock()
	}, 60 * time.Second, "Lost"},
}

// scrapes is how often Prometheus reads the numbers.
const scrapes = 15 * time.Second

// staged lets a fault happen. It returns the numbers afterwards, and what Prometheus has read meanwhile.
func (f fault) staged(t *testing.T) (now numbers, read15s []numbers) {
	sim.Run(t, func(w *sim.World) {
		s := &scene{World: w, t: t, node: w.Node("Redis"), m: monitor.New()}
		var over atomic.Bool
		go func() {
			for time.Sleep(scrapes / 2); !over.Load(); time.Sleep(scrapes) {
				read15s = append(read15s, read(t, s.m))
			}
		}()
		f.stage(s)
		w.At(f.until)
		over.Store(true)
		now = read(t, s.m)
	})
	return now, read15s
}

// With several nodes, each under a label of its own, the numbers say which of them hangs.
func TestNodesAreToldApart(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		m := monitor.New()
		nodes := []*sim.Node{w.Node("N1"), w.Node("N2"), w.Node("N3")}
		a := w.Client("A", nodes[0])
		clients := []redis.UniversalClient{a.Redis(), a.Connect(nodes[1]), a.Connect(nodes[2])}
		nodes[1].Hang()
		for i, rdb := range clients {
			w.At(time.Duration(i+1) * 10 * time.Second)
			rdb.AddHook(m.Hook(fmt.Sprint("redis-", i+1)))
			k, err := watchdog.New(rdb).TryLock(ctx, "order:1", lease)
			require.Equal(t, i == 1, err != nil)
			if err == nil {
				require.NoError(t, k.Unlock(ctx))
			}
		}
		w.At(time.Minute)
		n := read(t, m)
		require.Positive(t, n.of("commands_total", `outcome="no_answer"`, `node="redis-2"`))
		require.Equal(t, n.of("commands_total", `outcome="no_answer"`), n.of("commands_total", `outcome="no_answer"`, `node="redis-2"`))
		require.Zero(t, n.of("commands_total", `command="acquire"`, `outcome="done"`, `node="redis-2"`))
		require.Equal(t, 2.0, n.of("commands_total", `command="acquire"`, `outcome="done"`))
	})
}

// evidence is what has moved, without how far, and without the numbers that every use of a lock moves.
func evidence(n numbers) []string {
	var all []string
	constant := regexp.MustCompile(`(name|node)="[^"]*",?`)
	tidy := strings.NewReplacer(",}", "}", "{}", "", "redislock_", "")
	for series, v := range n {
		series = tidy.Replace(constant.ReplaceAllString(series, ""))
		if v != 0 && !slices.Contains(normal, series) {
			all = append(all, series)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var normal = []string{
	`attempts_total{outcome="acquired"}`, `wait_seconds_count`, `hold_seconds_count`, `unlocks_total{outcome="released"}`,
	`commands_total{command="acquire",outcome="done"}`, `commands_total{command="acquire",outcome="foreign"}`,
	`commands_total{command="extend",outcome="done"}`, `commands_total{command="release",outcome="done"}`,
	`commands_total{command="connect",outcome="done"}`,
}

// row is a fault's line in README.md: the evidence by metric, with the labels' values.
func row(f fault, evidence []string) string {
	var parts []string
	last := ""
	for _, series := range evidence {
		metric, labels, _ := strings.Cut(series, "{")
		var values []string
		for _, quoted := range regexp.MustCompile(`"[^"]*"`).FindAllString(labels, -1) {
			values = append(values, strings.Trim(quoted, `"`))
		}
		text := strings.Join(values, " ")
		if metric == last {
			parts[len(parts)-1] += ", " + text
		} else {
			parts = append(parts, strings.TrimSpace("`"+metric+"` "+text))
		}
		last = metric
	}
	if len(parts) == 0 {
		parts = []string{"nothing else"}
	}
	return "| " + f.name + " | " + strings.Join(parts, "<br>") + " | " + strings.ReplaceAll(f.alerts, " ", "<br>") + " |\n"
}

// Each fault leaves its own evidence in the numbers, and README.md says which.
func TestEachFaultShows(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	seen := map[string]string{}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			now, _ := f.staged(t)
			found := evidence(now)
			key := strings.Join(found, " ")
			require.Empty(t, seen[key], "it looks like another fault")
			seen[key] = f.name
			require.Contains(t, string(readme), row(f, found))
		})
	}
}

// Prometheus raises for each fault the alerts that README.md lists, and no others. It gets what the monitor has shown while
// the fault was staged, every 15 seconds, and then the last of it for 20 minutes.
func TestEachFaultRaisesItsAlerts(t *testing.T) {
	here, err := os.Getwd()
	require.NoError(t, err)
	var y strings.Builder
	fmt.Fprintf(&y, "rule_files: [%q]\nevaluation_interval: 15s\ntests:\n", filepath.Join(here, "alerts.yml"))
	for _, f := range faults {
		now, scraped := f.staged(t)
		fmt.Fprintf(&y, "- name: %s\n  interval: 15s\n  input_series:\n", f.name)
		for series, last := range now {
			fmt.Fprintf(&y, "  - {series: '%s', values: '0x4", series) // a minute of nothing before it
			for _, n := range scraped {
				fmt.Fprintf(&y, " %g", n[series])
			}
			fmt.Fprintf(&y, " %gx80'}\n", last)
		}
		// Nobody audits in these stories.
		y.WriteString("  promql_expr_test:\n  - eval_time: 20m\n    expr: " +
			`group by (alertname) (max_over_time(ALERTS{alertstate="firing",alertname!="RedisLockAuditStale"}[20m]))` +
			"\n    exp_samples:\n")
		for _, alert := range strings.Fields(f.alerts) {
			fmt.Fprintf(&y, "    - {labels: '{alertname=\"RedisLock%s\"}', value: 1}\n", alert)
		}
	}
	file := filepath.Join(t.TempDir(), "faults_test.yml")
	require.NoError(t, os.WriteFile(file, []byte(y.String()), 0o644))
	promtool(t, "test", "rules", file)
}

// One node of five hangs under chapter 06: every attempt goes on succeeding, and that node's commands show it.
func TestOneNodeOfFiveHangs(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		m := monitor.New()
		a := w.Client("A", w.Node("N1"))
		clients := []redis.UniversalClient{a.Redis()}
		for i := range 4 {
			clients = append(clients, a.Connect(w.Node(fmt.Sprint("N", i+2))))
		}
		for i, rdb := range clients {
			rdb.AddHook(m.Hook(fmt.Sprint("redis-", i+1)))
		}
		locker, err := redlock.New(clients)
		require.NoError(t, err)
		locks := monitor.Wrap(m, "orders", locker, errs06)
		w.Nodes()[2].Hang()
		k, err := locks.TryLock(ctx, "order:1", lease)
		require.NoError(t, err)
		w.At(45 * time.Second) // renewed since
		require.NoError(t, k.Handle().Context().Err())
		require.NoError(t, k.Unlock(ctx))
		w.At(2 * time.Minute)
		n := read(t, m)
		require.Equal(t, 1.0, n.of("attempts_total", `outcome="acquired"`))
		require.Equal(t, 1.0, n.of("attempts_total"))
		require.Equal(t, 1.0, n.of("unlocks_total", `outcome="released"`))
		require.Zero(t, n.of("leases_lost_total"))
		require.Positive(t, n.of("commands_total", `outcome="no_answer"`, `node="redis-3"`))
		require.Equal(t, n.of("commands_total", `outcome="no_answer"`), n.of("commands_total", `outcome="no_answer"`, `node="redis-3"`))
		require.Equal(t, 4.0, n.of("commands_total", `command="acquire"`, `outcome="done"`))
		require.Positive(t, n.of("commands_total", `command="extend"`, `outcome="done"`))
	})
}
