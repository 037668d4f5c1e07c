package monitor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	naivesetnx "example.com/redislock/01-naive-setnx"
	setnxpx "example.com/redislock/02-set-nx-px"
	saferelease "example.com/redislock/03-safe-release"
	watchdog "example.com/redislock/04-watchdog"
	reentrant "example.com/redislock/05-reentrant"
	redlock "example.com/redislock/06-redlock"
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
	t.Run("06", func(t *testing.T) {
		wraps(t, errs06, func(c *sim.Client) monitor.Source[*redlock.Lock] {
			l, err := redlock.New([]redis.UniversalClient{c.Redis()}) // its majority is one
			require.NoError(t, err)
			return l
		})
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

// The oldest of the open holds is the one that is shown, in whatever order they end, and those above the threshold are counted.
func TestOldestHold(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		m := monitor.New(monitor.WithTooLong(time.Minute))
		locks := monitor.Wrap(m, "orders", watchdog.New(w.Client("A", w.Node("Redis")).Redis()), errs04)
		begin := time.Now()
		var held []*monitor.Lock[*watchdog.Lock]
		for i := range 4 {
			w.At(time.Duration(i) * 20 * time.Second)
			k, err := locks.TryLock(ctx, string(rune('a'+i)), lease)
			require.NoError(t, err)
			held = append(held, k)
		}
		shows := func(open, tooLong int, oldest time.Duration) {
			t.Helper()
			n := read(t, m)
			require.Equal(t, float64(open), n.of("held"))
			require.Equal(t, float64(tooLong), n.of("held_too_long"))
			require.InDelta(t, float64(begin.Add(oldest).Unix()), n.of("oldest_hold_timestamp_seconds"), 0.001)
		}
		w.At(70 * time.Second)
		shows(4, 1, 0)
		require.NoError(t, held[1].Unlock(ctx))
		shows(3, 1, 0)
		w.At(110 * time.Second)
		shows(3, 2, 0)
		require.NoError(t, held[0].Handle().Unlock(ctx)) // past the monitor, which notices all the same
		shows(2, 1, 40*time.Second)
		require.NoError(t, held[3].Unlock(ctx))
		require.NoError(t, held[2].Unlock(ctx))
		n := read(t, m)
		require.NotContains(t, n, `redislock_oldest_hold_timestamp_seconds{name="orders"}`)
		require.Zero(t, n.of("held"))
		require.Zero(t, n.of("leases_lost_total"))
	})
}

// Do is counted like Lock and Unlock. It returns every error, ends the work with the lease, and unlocks after a panic.
func TestDo(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		n := w.Node("Redis")
		c := w.Client("A", n)
		m := monitor.New()
		with03 := monitor.Wrap(m, "orders", saferelease.New(c.Redis()), errs03)
		with04 := monitor.Wrap(m, "orders", watchdog.New(c.Redis()), errs04)
		declined := errors.New("the card was declined")

		require.NoError(t, with04.Do(ctx, "order:1", lease, func(work context.Context) error {
			require.Equal(t, 1.0, read(t, m).of("held"))
			return work.Err()
		}))
		err := with03.Do(ctx, "order:1", lease, func(work context.Context) error {
			time.Sleep(lease + time.Second) // virtual
			require.NoError(t, work.Err(), "before chapter 4 nobody tells")
			return declined
		})
		require.ErrorIs(t, err, declined)
		require.ErrorIs(t, err, saferelease.ErrExpired)
		err = with04.Do(ctx, "order:1", lease, func(work context.Context) error {
			n.Delete("lock:order:1")
			<-work.Done()
			require.ErrorIs(t, context.Cause(work), watchdog.ErrLockLost)
			return nil
		})
		require.ErrorIs(t, err, watchdog.ErrLockLost)
		require.ErrorIs(t, err, watchdog.ErrExpired)
		require.Panics(t, func() {
			_ = with04.Do(ctx, "order:1", lease, func(context.Context) error { panic("in the work") })
		})
		require.Empty(t, n.Value("lock:order:1"))

		held, err := with04.TryLock(ctx, "order:1", lease)
		require.NoError(t, err)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, with03.Do(short, "order:1", lease, func(context.Context) error { panic("not reached") }), errs03.NotAcquired)
		require.NoError(t, held.Unlock(ctx))

		now := read(t, m)
		require.Equal(t, 5.0, now.of("attempts_total", `outcome="acquired"`))
		require.Equal(t, 3.0, now.of("unlocks_total", `outcome="released"`))
		require.Equal(t, 2.0, now.of("unlocks_total", `outcome="expired"`))
		require.Equal(t, 1.0, now.of("leases_lost_total", `cause="outlived"`))
		require.Equal(t, 1.0, now.of("leases_lost_total", `cause="expired"`))
		require.Zero(t, now.of("held"))
	})
}
