package watchdog_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	watchdog "example.com/redislock/04-watchdog"
	"example.com/redislock/internal/redistest"
)

var ctx = context.Background()

const (
	lease = 30 * time.Second
	at    = "lock:order:1"
)

// noise is what a busy test machine gets on top of a promise. A call is back 100 ms after its deadline or a cancel.
const noise = 150 * time.Millisecond

// A3: a real server that is stopped, and go-redis with its defaults. Every call is back soon after its deadline, and soon
// after a cancel. What is in flight then is undone when the server goes on.
func TestCallsReturnWhenRedisHangs(t *testing.T) {
	for name, end := range map[string]struct {
		ctx func() (context.Context, context.CancelFunc)
		why error
	}{
		"deadline": {func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, 50*time.Millisecond) }, context.DeadlineExceeded},
		"cancel": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(50*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			truth := server.Client(t)
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
			defer func() { require.NoError(t, rdb.Close()) }()
			locker := watchdog.New(rdb)
			freed, err := locker.TryLock(ctx, "freed", lease)
			require.NoError(t, err)
			kept, err := locker.TryLock(ctx, "kept", lease)
			require.NoError(t, err)
			server.Pause()
			for name, call := range map[string]func(context.Context) error{
				"TryLock": func(ctx context.Context) error { _, err := locker.TryLock(ctx, "tried", lease); return err },
				"Lock":    func(ctx context.Context) error { _, err := locker.Lock(ctx, "wanted", lease); return err },
				"Extend":  func(ctx context.Context) error { return kept.Extend(ctx, time.Minute) },
				"Unlock":  freed.Unlock,
			} {
				ctx, cancel := end.ctx()
				start := time.Now()
				require.ErrorIs(t, call(ctx), end.why, name)
				require.Less(t, time.Since(start), (50+100)*time.Millisecond+noise, name)
				cancel()
			}
			server.Resume()
			require.Eventually(t, func() bool {
				return truth.Exists(ctx, "lock:freed", "lock:tried", "lock:wanted").Val() == 0
			}, 10*time.Second, 10*time.Millisecond)
			require.NoError(t, freed.Unlock(ctx), "the Unlock that had no time to wait has freed it")
			require.NoError(t, kept.Context().Err())
			left := truth.PTTL(ctx, "lock:kept").Val()
			require.Greater(t, left, time.Until(kept.Until()))
			require.LessOrEqual(t, left, time.Minute)
			require.NoError(t, kept.Unlock(ctx))
		})
	}
}

// A9: twenty waiters share two connections with the holder. Its renewals and its Unlock find one free.
func TestWaitersLeaveTheHolderAConnection(t *testing.T) {
	const ttl, every = 4 * time.Second, 200 * time.Millisecond
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 2})
	defer func() { require.NoError(t, rdb.Close()) }()
	locker := watchdog.New(rdb, watchdog.WithRenewEvery(every))
	k, err := locker.TryLock(ctx, "order:1", ttl)
	require.NoError(t, err)
	var waiters sync.WaitGroup
	for range 20 {
		waiters.Go(func() {
			k, err := locker.Lock(ctx, "order:1", ttl)
			if err == nil {
				err = k.Unlock(ctx)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	fresh := ttl - ttl/100 - 2*time.Millisecond - every // what a lease has left just before it is renewed
	until, renewals := k.Until(), 0
	require.Eventually(t, func() bool {
		now := k.Until()
		assert.Greater(t, time.Until(now), fresh-100*time.Millisecond-noise, "a renewal had to wait")
		if now != until {
			until, renewals = now, renewals+1
		}
		return renewals == 5
	}, 10*time.Second, 10*time.Millisecond)
	start := time.Now()
	require.NoError(t, k.Unlock(ctx))
	require.Less(t, time.Since(start), 100*time.Millisecond+noise)
	waiters.Wait()
}

const manyLeases = 10_000

// long skips a test that takes ten seconds where tests are short, slow or repeated.
func long(t *testing.T) {
	if os.Getenv("REDISLOCK_LONG") == "" {
		t.Skip("takes a minute; run it with REDISLOCK_LONG=1, as CI does")
	}
}

// hold lets one process take many locks, a few at a time.
func hold(t testing.TB, locker *watchdog.Locker, leases int, ttl time.Duration) []*watchdog.Lock {
	held := make([]*watchdog.Lock, leases)
	each(leases, func(i int) {
		k, err := locker.TryLock(ctx, fmt.Sprint("order:", i), ttl)
		if err != nil {
			t.Error(err)
		}
		held[i] = k
	})
	require.False(t, t.Failed())
	return held
}

// each calls f for every number below n, in twenty goroutines.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	for first := range 20 {
		all.Go(func() {
			for i := first; i < n; i += 20 {
				f(i)
			}
		})
	}
	all.Wait()
}

// allFreed wants every one of them to be still held, and frees it.
func allFreed(t testing.TB, held []*watchdog.Lock) {
	each(len(held), func(i int) {
		if err := context.Cause(held[i].Context()); err != nil {
			t.Error(err)
		}
		if err := held[i].Unlock(ctx); err != nil {
			t.Error(err)
		}
	})
}

// Ten thousand leases of one process are all alive after a minute of renewals. The world of internal/sim writes down
// every command and looks at every key each time, which is too slow for so many: here is a bare server in a bubble. It looks
// at every key whenever time has passed, so the leases come a hundred at a time.
func TestManyLeases(t *testing.T) {
	long(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true)
		rdb := redis.NewClient(&redis.Options{
			Addr:                     "127.0.0.1:6379", // never dialled
			PoolSize:                 200,              // nobody waits: go-redis' timers for that outlive the bubble
			Dialer:                   func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		locker := watchdog.New(rdb)
		var held []*watchdog.Lock
		for i := range manyLeases {
			k, err := locker.TryLock(ctx, fmt.Sprint("order:", i), lease)
			require.NoError(t, err)
			held = append(held, k)
			if i%100 == 99 {
				time.Sleep(100 * time.Millisecond) // virtual
			}
		}
		time.Sleep(time.Minute) // virtual
		require.Len(t, server.Keys(), len(held))
		for _, k := range held {
			require.NoError(t, context.Cause(k.Context()))
			require.NoError(t, k.Unlock(ctx))
		}
		require.Empty(t, server.Keys())
		require.NoError(t, rdb.Close())
		server.Close()
	})
}

// Ten thousand leases of one process are all alive on a real server, and have all been renewed after their first TTL.
func TestManyLeasesOnARealServer(t *testing.T) {
	long(t)
	t.Parallel()
	const ttl = 30 * time.Second
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { require.NoError(t, rdb.Close()) }()
	held := hold(t, watchdog.New(rdb), manyLeases, ttl)
	end := time.Now().Add(ttl) // without renewals all are gone by then
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(held, func(k *watchdog.Lock) bool { return k.Until().Before(end.Add(ttl)) })
	}, 3*ttl, 100*time.Millisecond, "every one has been renewed after that")
	require.EqualValues(t, manyLeases, server.Client(t).DBSize(ctx).Val())
	allFreed(t, held)
	require.Zero(t, server.Client(t).DBSize(ctx).Val())
}

// What a held lease costs in memory, its goroutine and its timers included.
func BenchmarkLease(b *testing.B) {
	server := redistest.Start(b)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { require.NoError(b, rdb.Close()) }()
	locker := watchdog.New(rdb)
	allFreed(b, hold(b, locker, 100, lease)) // connections and buffers are there from now on
	memory := func() (m runtime.MemStats) {
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m
	}
	before := memory()
	held := hold(b, locker, b.N, lease)
	after := memory()
	b.StopTimer()
	used := int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)
	b.ReportMetric(float64(used)/float64(b.N), "bytes/lease")
	allFreed(b, held)
}
