package monitor_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	watchdog "example.com/redislock/04-watchdog"
	monitor "example.com/redislock/07-failover-demo/monitor"
	"example.com/redislock/internal/sim"
)

// promtool runs Prometheus' own checker. Without it the test is skipped, or fails if REDISLOCK_REQUIRE_PROMTOOL=1.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	switch {
	case sim.RaceDetector:
		t.Skip("promtool has nothing for the race detector to see")
	case err == nil:
	case os.Getenv("REDISLOCK_REQUIRE_PROMTOOL") == "1":
		t.Fatal("REDISLOCK_REQUIRE_PROMTOOL=1, but there is no promtool: apt-get install prometheus")
	default:
		t.Skip("no promtool: apt-get install prometheus, or brew install prometheus")
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The alert rules are valid, and fire when they should and only then: alerts_test.yml says when.
func TestAlerts(t *testing.T) {
	promtool(t, "check", "rules", "alerts.yml")
	promtool(t, "test", "rules", "alerts_test.yml")
}

// Prometheus understands every query of the dashboard.
func TestDashboardQueries(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	grafana := strings.NewReplacer("$__rate_interval", "5m", "$name", ".*", "$node", ".*")
	queries := dashboard(t)
	require.Greater(t, len(queries), 15)
	for i, q := range queries {
		fmt.Fprintf(&rules, "  - record: query_%d\n    expr: %q\n", i, grafana.Replace(q))
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	require.NoError(t, os.WriteFile(file, []byte(rules.String()), 0o644))
	promtool(t, "check", "rules", file)
}

// dashboard lists the queries of all panels.
func dashboard(t *testing.T) (queries []string) {
	raw, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var d struct {
		Panels []struct {
			ID, Type, Title any
			Targets         []struct{ Expr string }
			GridPos         struct{ X, Y, W, H int }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &d))
	ids := map[any]bool{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "two panels have the id %v", p.ID)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, "%v is too wide", p.Title)
		require.Equal(t, p.Type != "row", len(p.Targets) > 0, "%v", p.Title)
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	return queries
}

// exported is what a Monitor exports: metric → label → all its values, of a Monitor on which everything has been used.
func exported(t *testing.T) map[string]map[string][]string {
	server, err := miniredis.Run()
	require.NoError(t, err)
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { require.NoError(t, rdb.Close()) }()
	m := monitor.New()
	rdb.AddHook(m.Hook("redis-1"))
	k, err := monitor.Wrap(m, "orders", watchdog.New(rdb), errs04).TryLock(ctx, "order:1", lease)
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Unlock(ctx)) }()
	audited(t, m, rdb)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]map[string][]string{}
	for _, family := range families {
		labels := map[string][]string{}
		for _, x := range family.GetMetric() {
			for _, l := range x.GetLabel() {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
			if x.GetHistogram() != nil {
				for _, part := range []string{"_bucket", "_count", "_sum"} {
					all[family.GetName()+part] = labels
				}
			}
		}
		all[family.GetName()] = labels
	}
	return all
}

var (
	metricName = regexp.MustCompile(`\bredislock_\w+`)
	selector   = regexp.MustCompile(`\b(redislock_\w+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)(=|!=|=~|!~)"([^"]*)"`)
)

// Every metric that a rule, its test, or the dashboard names exists, and so does every label, and every value of the labels
// whose values are the monitor's own. promtool can't know: to it a misspelt metric is one that has no data.
func TestEveryMetricExists(t *testing.T) {
	metrics := exported(t)
	texts := map[string]string{"dashboard.json": strings.Join(dashboard(t), "\n")}
	for _, file := range []string{"alerts.yml", "alerts_test.yml"} {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		texts[file] = string(raw)
	}
	for file, text := range texts {
		found := metricName.FindAllString(text, -1)
		require.NotEmpty(t, found, file)
		for _, name := range found {
			require.Contains(t, metrics, name, file)
		}
		for _, s := range selector.FindAllStringSubmatch(text, -1) {
			for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
				label, value := m[1], m[3]
				if label == "instance" { // Prometheus adds it
					continue
				}
				require.Contains(t, metrics[s[1]], label, "%s: %s", file, s[0])
				if label == "name" || label == "node" {
					continue
				}
				for _, v := range strings.Split(value, "|") {
					require.Contains(t, metrics[s[1]][label], v, "%s: %s", file, s[0])
				}
			}
		}
	}
	for name := range metrics {
		base := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
		require.Contains(t, texts["dashboard.json"], base, "the dashboard does not show it")
	}
}

// README.md explains every metric with every value of its labels, and every alert; each alert has a test in which it fires.
func TestReadmeIsComplete(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	require.NoError(t, err)
	readme := string(raw)
	for name, labels := range exported(t) {
		short := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(strings.TrimPrefix(name, "redislock_"), "")
		row := regexp.MustCompile("(?m)^\\| .*`" + short + "`.* \\| .*$").FindString(readme)
		require.NotEmpty(t, row, "%s is not in the table", short)
		for label, values := range labels {
			require.Contains(t, row, label, short)
			for _, v := range values {
				if label != "name" && label != "node" {
					require.Contains(t, row, "`"+v+"`", "%s: %s", short, label)
				}
			}
		}
	}
	rules, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	tests, err := os.ReadFile("alerts_test.yml")
	require.NoError(t, err)
	alerts := regexp.MustCompile(`(?m)^ *- alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1)
	require.NotEmpty(t, alerts)
	for _, a := range alerts {
		require.Contains(t, readme, "\n### "+a[1]+"\n")
		require.Contains(t, string(rules), "runbook: 07-failover-demo/monitor/README.md#"+strings.ToLower(a[1])+"\n")
		require.Regexp(t, `alertname: `+a[1]+`\n +eval_time: \w+\n +exp_alerts:\n +- exp_labels`, string(tests), "no test lets it fire")
	}
	for _, h := range regexp.MustCompile(`(?m)^### (RedisLock\w+)$`).FindAllStringSubmatch(readme, -1) {
		require.True(t, slices.ContainsFunc(alerts, func(a []string) bool { return a[1] == h[1] }), "%s is no alert", h[1])
	}
}
