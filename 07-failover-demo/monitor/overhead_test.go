package monitor_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	saferelease "example.com/redislock/03-safe-release"
	watchdog "example.com/redislock/04-watchdog"
	monitor "example.com/redislock/07-failover-demo/monitor"
	"example.com/redislock/internal/redistest"
)

// BenchmarkOverhead compares an uncontended TryLock and Unlock on a local server: without the monitor, with the wrapper, and
// with wrapper and hook. The three take turns, so that whatever else the machine does meets all of them. It prints the
// median without the monitor, and what the others' medians are as a multiple of it:
//
//	go test -run - -bench Overhead -benchtime 20000x ./07-failover-demo/monitor
func BenchmarkOverhead(b *testing.B) {
	b.Run("03", func(b *testing.B) {
		overhead(b, func(rdb redis.UniversalClient) monitor.Source[*saferelease.Lock] { return saferelease.New(rdb) }, errs03)
	})
	b.Run("04", func(b *testing.B) {
		overhead(b, func(rdb redis.UniversalClient) monitor.Source[*watchdog.Lock] { return watchdog.New(rdb) }, errs04)
	})
}

func overhead[H monitor.Handle](b *testing.B, locker func(redis.UniversalClient) monitor.Source[H], errs monitor.Errors) {
	server := redistest.Start(b)
	m := monitor.New()
	hooked := server.Client(b)
	hooked.AddHook(m.Hook("redis"))
	bare := locker(server.Client(b))
	wrapped := monitor.Wrap(m, "orders", locker(server.Client(b)), errs)
	both := monitor.Wrap(m, "orders", locker(hooked), errs)
	turns := []func() time.Duration{
		func() time.Duration { return turn(b, bare) },
		func() time.Duration { return turn[*monitor.Lock[H]](b, wrapped) },
		func() time.Duration { return turn[*monitor.Lock[H]](b, both) },
	}
	for i := range 300 { // connections, buffers, the first allocations
		turns[i%3]()
	}
	var took [3][]time.Duration
	b.ResetTimer()
	for i := range b.N { // not Loop: each measures for itself
		for j := range turns {
			k := (i + j) % 3
			took[k] = append(took[k], turns[k]())
		}
	}
	alone := median(took[0])
	b.ReportMetric(float64(alone.Nanoseconds()), "ns/lock+unlock")
	b.ReportMetric(float64(median(took[1]))/float64(alone), "×wrapper")
	b.ReportMetric(float64(median(took[2]))/float64(alone), "×wrapper+hook")
	b.ReportMetric(0, "ns/op") // of three different things at once: says nothing
}

// turn takes a lock and gives it back, and says how long that took.
func turn[H monitor.Handle](b *testing.B, locks monitor.Source[H]) time.Duration {
	start := time.Now()
	k, err := locks.TryLock(ctx, "order:1", lease)
	if err == nil {
		err = k.Unlock(ctx)
	}
	took := time.Since(start)
	require.NoError(b, err)
	return took
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// leased is a handle with a context, as from chapter 4 on, that costs nothing.
type leased struct {
	handle
	ctx context.Context
}

func (k *leased) Context() context.Context { return k.ctx }

type idle struct{ k *leased }

func (i idle) TryLock(context.Context, string, time.Duration) (*leased, error) { return i.k, nil }
func (i idle) Lock(context.Context, string, time.Duration) (*leased, error)    { return i.k, nil }

// BenchmarkWrapper is what the wrapper alone costs, around a lock that does nothing.
func BenchmarkWrapper(b *testing.B) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	locks := monitor.Wrap(monitor.New(), "orders", idle{&leased{ctx: ctx}}, monitor.Errors{})
	b.ReportAllocs()
	for b.Loop() {
		k, _ := locks.TryLock(ctx, "order:1", lease)
		_ = k.Unlock(ctx)
	}
}

// BenchmarkHook is what the hook alone costs, for a command that does nothing.
func BenchmarkHook(b *testing.B) {
	cmd := redis.NewCmd(ctx, "EVAL", "-- release: 1 deleted, 0 the key is gone\nreturn 1", 1, "lock:order:1", "token")
	cmd.SetVal(int64(1))
	process := monitor.New().Hook("redis").ProcessHook(func(context.Context, redis.Cmder) error { return nil })
	b.ReportAllocs()
	for b.Loop() {
		_ = process(ctx, cmd)
	}
}
