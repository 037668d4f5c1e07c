package monitor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	watchdog "example.com/redislock/04-watchdog"
	monitor "example.com/redislock/07-failover-demo/monitor"
	"example.com/redislock/internal/redistest"
)

// A real server that is down, hangs, or refuses to write shows in the same numbers as in virtual time.
func TestRealFaultsShow(t *testing.T) {
	for outcome, hurt := range map[string]func(*redistest.Server){
		"no_connection": func(s *redistest.Server) { s.Kill() },
		"no_answer":     func(s *redistest.Server) { s.Pause() },
		"refused": func(s *redistest.Server) {
			require.NoError(t, s.Client(t).ConfigSet(ctx, "min-replicas-to-write", "1").Err())
		},
	} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Second}) // the hook counts when go-redis gives up
			defer func() { require.NoError(t, rdb.Close()) }()
			m := monitor.New()
			rdb.AddHook(m.Hook("redis"))
			locks := monitor.Wrap(m, "orders", watchdog.New(rdb), errs04)
			k, err := locks.TryLock(ctx, "order:1", lease)
			require.NoError(t, err)
			require.NoError(t, k.Unlock(ctx))
			hurt(server)
			eventually := func(metric string, labels ...string) {
				t.Helper()
				require.Eventually(t, func() bool { return read(t, m).of(metric, labels...) > 0 }, 30*time.Second, 20*time.Millisecond,
					"%s %q", metric, labels)
			}
			_, err = locks.TryLock(ctx, "order:2", lease)
			require.Error(t, err)
			eventually("attempts_total", `outcome="error"`)
			eventually("commands_total", fmt.Sprintf("outcome=%q", outcome))
			n := read(t, m)
			require.Equal(t, outcome == "no_connection", n.of("commands_total", `command="connect"`, `outcome="no_connection"`) > 0)
			for _, other := range []string{"no_connection", "refused", "foreign"} {
				if other != outcome {
					require.Zero(t, n.of("commands_total", fmt.Sprintf("outcome=%q", other)), other)
				}
			}
			if outcome == "no_answer" {
				server.Resume()
			}
		})
	}
}

// Any number of keys is the same number of time series.
func TestSeriesDoNotGrowWithKeys(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	m := monitor.New()
	rdb.AddHook(m.Hook("redis"))
	locks := monitor.Wrap(m, "orders", watchdog.New(rdb), errs04)
	var series []int
	for i := range 200 {
		k, err := locks.TryLock(ctx, fmt.Sprint("order:", i), lease)
		require.NoError(t, err)
		require.NoError(t, rdb.Set(ctx, fmt.Sprint("stock:", i), i, 0).Err())
		series = append(series, len(read(t, m)))
		require.NoError(t, k.Unlock(ctx))
	}
	require.Equal(t, series[0], series[199])
}

// Locks are taken, lost and unlocked, twice and by several at once, while Prometheus reads: every number adds up, and
// nothing stays behind. It is the race detector's test.
func TestConcurrentUse(t *testing.T) {
	const callers, rounds = 8, 40
	m := monitor.New()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	var all, reader sync.WaitGroup
	reading, done := context.WithCancel(ctx)
	reader.Go(func() {
		for reading.Err() == nil {
			if _, err := registry.Gather(); err != nil {
				t.Error(err)
			}
		}
	})
	for range callers {
		all.Go(func() {
			for i := range rounds {
				ctx, lose := context.WithCancelCause(ctx)
				locks := monitor.Wrap(m, "orders", idle{&leased{ctx: ctx}}, monitor.Errors{})
				k, _ := locks.Lock(ctx, "order:1", lease)
				if i%2 == 0 {
					lose(context.DeadlineExceeded) // any cause but an Unlock's
				}
				var both sync.WaitGroup
				for range 2 {
					both.Go(func() { _ = k.Unlock(ctx) })
				}
				both.Wait()
				lose(nil)
			}
		})
	}
	all.Wait()
	done()
	reader.Wait()
	n := read(t, m)
	require.Equal(t, float64(callers*rounds), n.of("attempts_total", `outcome="acquired"`))
	require.Equal(t, float64(callers*rounds), n.of("hold_seconds_count"))
	require.Equal(t, float64(2*callers*rounds), n.of("unlocks_total"))
	require.Equal(t, float64(callers*rounds/2), n.of("leases_lost_total", `cause="not_renewed"`))
	require.Zero(t, n.of("held"))
	require.Zero(t, n.of("waiting"))
}
