package monitor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	naivesetnx "example.com/redislock/01-naive-setnx"
	setnxpx "example.com/redislock/02-set-nx-px"
	saferelease "example.com/redislock/03-safe-release"
	watchdog "example.com/redislock/04-watchdog"
	reentrant "example.com/redislock/05-reentrant"
	monitor "example.com/redislock/07-failover-demo/monitor"
	"example.com/redislock/internal/sim"
)

const lease = 30 * time.Second

// Every chapter's locker can be wrapped with its own types, and each outcome of a call is counted once, as what it was.
func TestWrapsEveryChapter(t *testing.T) {
	t.Run("01", func(t *testing.T) {
		wraps(t, errs01, func(c *sim.Client) monitor.Source[*naivesetnx.Lock] { return naivesetnx.New(c.Redis()) })
	})
	t.Run("02", func(t *testing.T) {
		wraps(t, errs02, func(c *sim.Client) monitor.Source[*setnxpx.Lock] { return setnxpx.New(c.Redis()) })
	})
	t.Run("03", func(t *testing.T) {
		wraps(t, errs03, func(c *sim.Client) monitor.Source[*saferelease.Lock] { return saferelease.New(c.Redis()) })
	})
	t.Run("04", func(t *testing.T) {
		wraps(t, errs04, func(c *sim.Client) monitor.Source[*watchdog.Lock] { return watchdog.New(c.Redis()) })
	})
	t.Run("05", func(t *testing.T) {
		wraps(t, errs05, func(c *sim.Client) monitor.Source[*reentrant.Lock] { return reentrant.New(c.Redis()) })
	})
}

func wraps[H monitor.Handle](t *testing.T, errs monitor.Errors, locker func(*sim.Client) monitor.Source[H]) {
	sim.Run(t, func(w *sim.World) {
		n := w.Node("Redis")
		m := monitor.New()
		a := monitor.Wrap(m, "orders", locker(w.Client("A", n)), errs)
		b := monitor.Wrap(m, "orders", locker(w.Client("B", n)), errs)
		var expected numbers
		counts := func(series string) {
			t.Helper()
			now := read(t, m)
			require.Equal(t, 1.0, now.since(expected)[series], "of %v", now.since(expected))
			expected = now
		}

		k, err := a.TryLock(ctx, "order:1", lease)
		require.NoError(t, err)
		require.Equal(t, "order:1", k.Key())
		counts(`redislock_attempts_total{name="orders",outcome="acquired"}`)
		require.Equal(t, 1.0, expected.of("held"))

		_, err = b.TryLock(ctx, "order:1", lease)
		require.ErrorIs(t, err, errs.NotAcquired)
		counts(`redislock_attempts_total{name="orders",outcome="taken"}`)

		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err = b.Lock(short, "order:1", lease)
		require.ErrorIs(t, err, errs.NotAcquired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		counts(`redislock_attempts_total{name="orders",outcome="timeout"}`)

		_, err = b.Lock(short, "order:1", lease) // it had ended before: Redis was not even asked
		require.ErrorIs(t, err, context.DeadlineExceeded)
		counts(`redislock_attempts_total{name="orders",outcome="cancelled"}`)

		waiting, giveUp := context.WithCancel(ctx)
		time.AfterFunc(5*time.Second, func() {
			require.Equal(t, 1.0, read(t, m).of("waiting"))
			giveUp()
		})
		_, err = b.Lock(waiting, "order:1", lease)
		require.ErrorIs(t, err, context.Canceled)
		counts(`redislock_attempts_total{name="orders",outcome="cancelled"}`)

		require.NoError(t, k.Unlock(ctx))
		counts(`redislock_unlocks_total{name="orders",outcome="released"}`)
		require.Equal(t, 1.0, expected.of("hold_seconds_count"))
		require.ErrorIs(t, k.Unlock(ctx), errs.NotHeld)
		require.Equal(t, 1.0, read(t, m).since(expected).of("unlocks_total"))
		expected = read(t, m)
		require.Equal(t, 1.0, expected.of("hold_seconds_count"), "a second Unlock ends no second hold")

		var none *monitor.Lock[H] // for a deferred Unlock before the error is looked at
		require.ErrorIs(t, none.Unlock(ctx), errs.NotHeld)

		n.Crash()
		_, err = a.TryLock(ctx, "order:1", lease)
		require.Error(t, err)
		counts(`redislock_attempts_total{name="orders",outcome="error"}`)
		require.Zero(t, expected.of("held"))
		require.Zero(t, expected.of("waiting"))
		require.Zero(t, expected.of("leases_lost_total"))
		require.Equal(t, 6.0, expected.of("attempts_total"))
		require.Equal(t, 1.0, expected.of("wait_seconds_count"))
	})
}

// fixed is a locker that returns what it is told to.
type fixed struct {
	handle *handle
	err    error
}

func (f fixed) TryLock(context.Context, string, time.Duration) (*handle, error) {
	return f.handle, f.err
}
func (f fixed) Lock(context.Context, string, time.Duration) (*handle, error) { return f.handle, f.err }

type handle struct{ err error }

func (h *handle) Unlock(context.Context) error { return h.err }
func (h *handle) Key() string                  { return "order:1" }

// Handles and errors pass through: what the caller gets is what the locker has returned, not a copy or a wrapping.
func TestHandlesAndErrorsPassThrough(t *testing.T) {
	type private struct{ error }
	var tryLock, unlock error = &private{}, &private{}
	h := &handle{err: unlock}
	k, err := monitor.Wrap(monitor.New(), "orders", fixed{handle: h}, monitor.Errors{}).TryLock(ctx, "order:1", lease)
	require.NoError(t, err)
	require.Same(t, h, k.Handle())
	require.Same(t, unlock, k.Unlock(ctx))
	k, err = monitor.Wrap(monitor.New(), "orders", fixed{err: tryLock}, monitor.Errors{}).Lock(ctx, "order:1", lease)
	require.Same(t, tryLock, err)
	require.Nil(t, k)
}

// A wrapped locker can be wrapped again: it is a Source like any other.
var _ monitor.Source[*monitor.Lock[*watchdog.Lock]] = (*monitor.Locker[*watchdog.Lock])(nil)

// A nested acquisition is an acquisition and a hold of its own. If the lease is lost, both are.
func TestNestedHoldsCountEach(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		n := w.Node("Redis")
		m := monitor.New()
		c := w.Client("A", n)
		c.Redis().AddHook(m.Hook("redis"))
		locks := monitor.Wrap(m, "orders", reentrant.New(c.Redis()), errs05)
		ctx := reentrant.WithOwner(ctx)
		outer, err := locks.Lock(ctx, "order:1", lease)
		require.NoError(t, err)
		for range 2 {
			inner, err := locks.Lock(ctx, "order:1", lease)
			require.NoError(t, err)
			require.Equal(t, 2.0, read(t, m).of("held"))
			require.NoError(t, inner.Unlock(ctx))
		}
		require.Equal(t, 3.0, read(t, m).of("commands_total", `command="acquire"`, `outcome="done"`))
		_, err = locks.Lock(ctx, "order:1", lease)
		require.NoError(t, err)
		n.Delete("lock:order:1")
		w.At(20 * time.Second)
		require.Error(t, outer.Handle().Context().Err())
		require.Equal(t, 2.0, read(t, m).of("leases_lost_total", `cause="expired"`))
		require.Zero(t, read(t, m).of("held"))
	})
}
