package spotthebug

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
)

// Thirty seconds, counted in milliseconds and passed to EX, are 8 hours and 20 minutes.
func TestMillisecondsPassedAsSeconds(t *testing.T) {
	type taker func(context.Context, redis.UniversalClient, string, string) (bool, error)
	ttlAfter := func(try taker) (left time.Duration) {
		pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
			a.Do(func() { _, _ = try(ctx, a.Redis(), key, newToken()) })
			left = n.TTL(key)
			require.False(t, takes(b), "B met A's lock")
		})
		return left
	}
	require.Equal(t, 8*time.Hour+20*time.Minute, ttlAfter(takeLock), "the slip")
	require.Equal(t, 30*time.Second, ttlAfter(take), "mended")
}

// A caller that doesn't want to wait is refused a lock that is free.
func TestWaitOfZeroNeverTries(t *testing.T) {
	type waiter func(context.Context, redis.UniversalClient, string, string, time.Duration) (bool, error)
	got := func(try waiter, wait time.Duration) (ok bool) {
		pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
			a.Do(func() { ok, _ = try(ctx, a.Redis(), key, newToken(), wait) })
			require.Equal(t, ok, n.Value(key) != "", "an attempt leaves a key")
		})
		return ok
	}
	require.False(t, got(tryFor, 0), "the slip")
	require.True(t, got(tryFor, time.Second), "which nobody sees with any other wait")
	require.True(t, got(tryForMended, 0), "mended")
}

// With no retries the loop never runs, and nil means "yours".
func TestNoRetriesMeansHeld(t *testing.T) {
	type retrier func(context.Context, redis.UniversalClient, string, string, int) error
	both := func(try retrier) (errA, errB error) {
		pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
			a.Do(func() { errA = try(ctx, a.Redis(), key, newToken(), 0) })
			b.Do(func() { errB = try(ctx, b.Redis(), key, newToken(), 0) })
		})
		return errA, errB
	}
	errA, errB := both(lockWithRetries)
	require.NoError(t, errA, "the slip")
	require.NoError(t, errB, "the slip: A and B are both inside, and Redis was never asked")
	errA, errB = both(lockWithRetriesMended)
	require.NoError(t, errA, "mended")
	require.ErrorIs(t, errB, errTaken, "mended")
}

// Two pieces of code that lock one order under two names exclude nobody.
func TestPrefixInOnePlaceOnly(t *testing.T) {
	pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
		var shop, batch, shopMended, batchMended bool
		a.Do(func() { shop, _ = lockOrder(ctx, a.Redis(), "order:1", newToken()) })
		b.Do(func() { batch, _ = lockOrderForBatch(ctx, b.Redis(), "order:1", newToken()) })
		require.True(t, shop && batch, "the slip: both are inside")
		a.Do(func() { shopMended, _ = lockOrderMended(ctx, a.Redis(), "order:2", newToken()) })
		b.Do(func() { batchMended, _ = lockOrderMended(ctx, b.Redis(), "order:2", newToken()) })
		require.True(t, shopMended, "mended")
		require.False(t, batchMended, "mended")
	})
}
