package monitor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	naivesetnx "example.com/redislock/01-naive-setnx"
	setnxpx "example.com/redislock/02-set-nx-px"
	saferelease "example.com/redislock/03-safe-release"
	watchdog "example.com/redislock/04-watchdog"
	reentrant "example.com/redislock/05-reentrant"
	redlock "example.com/redislock/06-redlock"
	monitor "example.com/redislock/07-failover-demo/monitor"
)

var ctx = context.Background()

// The errors of each chapter, as its user hands them over.
var (
	errs01 = monitor.Errors{NotAcquired: naivesetnx.ErrNotAcquired, NotHeld: naivesetnx.ErrNotHeld}
	errs02 = monitor.Errors{
		NotAcquired: setnxpx.ErrNotAcquired, NotHeld: setnxpx.ErrNotHeld, Expired: setnxpx.ErrExpired, Stolen: setnxpx.ErrStolen,
	}
	errs03 = monitor.Errors{
		NotAcquired: saferelease.ErrNotAcquired, NotHeld: saferelease.ErrNotHeld,
		Expired: saferelease.ErrExpired, Stolen: saferelease.ErrStolen,
	}
	errs04 = monitor.Errors{
		NotAcquired: watchdog.ErrNotAcquired, NotHeld: watchdog.ErrNotHeld, Expired: watchdog.ErrExpired, Stolen: watchdog.ErrStolen,
	}
	errs05 = monitor.Errors{
		NotAcquired: reentrant.ErrNotAcquired, NotHeld: reentrant.ErrNotHeld, Expired: reentrant.ErrExpired, Stolen: reentrant.ErrStolen,
	}
	errs06 = monitor.Errors{
		NotAcquired: redlock.ErrNotAcquired, NotHeld: redlock.ErrNotHeld, Expired: redlock.ErrExpired, Stolen: redlock.ErrStolen,
	}
)

// numbers are the time series that a registry shows, such as redislock_held{name="orders"}. A histogram shows its count.
type numbers map[string]float64

func read(t testing.TB, m *monitor.Monitor) numbers {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	families, err := registry.Gather()
	require.NoError(t, err)
	all := numbers{}
	for _, family := range families {
		for _, x := range family.GetMetric() {
			var labels []string
			for _, l := range x.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := family.GetName()
			v := x.GetCounter().GetValue() + x.GetGauge().GetValue()
			if h := x.GetHistogram(); h != nil {
				name, v = name+"_count", float64(h.GetSampleCount())
			}
			all[name+"{"+strings.Join(labels, ",")+"}"] = v
		}
	}
	return all
}

// of sums the series of one metric that have all these labels.
func (n numbers) of(metric string, labels ...string) (sum float64) {
	for series, v := range n {
		name, rest, _ := strings.Cut(series, "{")
		has := func(l string) bool { return strings.Contains(rest, l) }
		if name == "redislock_"+metric && !slices.ContainsFunc(labels, func(l string) bool { return !has(l) }) {
			sum += v
		}
	}
	return sum
}

// since lists what has changed since earlier numbers, and by how much.
func (n numbers) since(earlier numbers) numbers {
	moved := numbers{}
	for series, v := range n {
		if d := v - earlier[series]; d != 0 {
			moved[series] = d
		}
	}
	return moved
}

// audited lets the monitor look at Redis once.
func audited(t testing.TB, m *monitor.Monitor, rdb redis.UniversalClient) {
	t.Helper()
	watching, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.Watch(watching, "redis-1", rdb, time.Hour, monitor.Limits{}) }()
	require.Eventually(t, func() bool { return read(t, m).of("audit_timestamp_seconds") > 0 }, 20*time.Second, 5*time.Millisecond)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}
