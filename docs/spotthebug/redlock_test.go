package spotthebug

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// Two of two reachable nodes are not a majority of five: the other three give the lock to B.
func TestQuorumOfReachableNodes(t *testing.T) {
	holders := func(takeIt func(context.Context, nodes, string, string) bool) (a, b bool) {
		sim.Run(t, func(w *sim.World) {
			all := cluster(w)
			ca, rdbsA := reach(w, "A", all, once)
			cb, rdbsB := reach(w, "B", all, once)
			for _, n := range all[:3] {
				n.Crash()
			}
			ca.Do(func() { a = takeIt(ctx, rdbsA, key, newToken()) })
			w.At(10 * time.Second) // go-redis dials a dead node several times
			for _, n := range all[:3] {
				n.Restart(true)
			}
			w.At(11 * time.Second)
			cb.Do(func() { b = takeIt(ctx, rdbsB, key, newToken()) })
		})
		return a, b
	}
	a, b := holders(takeMajority)
	require.True(t, a && b, "the slip: both hold")
	a, b = holders(takeMajorityMended)
	require.False(t, a, "mended")
	require.True(t, b, "mended")
}

// While A waits for its votes, somebody sets the machine's clock back. The lease seems to grow.
func TestElapsedOnTheWallClock(t *testing.T) {
	outlives := func(valid func(rdbs nodes, wall func() time.Time) time.Duration) (by time.Duration) {
		sim.Run(t, func(w *sim.World) {
			all := cluster(w)
			a, rdbs := reach(w, "A", all, once)
			set := time.Duration(0)
			wall := func() time.Time { return time.Now().Add(set) }
			a.StopAfter(wire.Acquires)
			var left time.Duration
			a.Do(func() { left = valid(rdbs, wall) })
			w.At(10 * time.Second)
			set = -time.Minute
			a.GoOn()
			w.At(11 * time.Second)
			by = left - time.Second - all[0].TTL(key)
		})
		return by
	}
	require.Greater(t, outlives(func(rdbs nodes, wall func() time.Time) time.Duration {
		return validFor(ctx, rdbs, key, newToken(), wall)
	}), time.Minute/2, "the slip: A trusts its lease for half a minute after the first node's key has ended")
	require.Negative(t, outlives(func(rdbs nodes, _ func() time.Time) time.Duration {
		return validForMended(ctx, rdbs, key, newToken())
	}), "mended")
}

// A server's clock runs one percent fast. With the drift added, A trusts a lease that has ended; subtracted, it doesn't.
func TestDriftAdded(t *testing.T) {
	keyIsThereAt := func(end time.Duration) (there bool) {
		pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
			require.True(t, takes(a))
			w.At(time.Second)
			n.JumpClock(ttl / 100)
			w.At(end)
			there = n.Value(key) != ""
			require.Equal(t, !there, takes(b))
		})
		return there
	}
	require.False(t, keyIsThereAt(validity(0)-time.Millisecond), "the slip: B is inside before A's lease ends, as A counts")
	require.True(t, keyIsThereAt(validityMended(0)-time.Millisecond), "mended")
}

// Two nodes of five hang. Asked in turn they cost their timeouts; asked at once they cost nothing.
func TestHungNodesInTurn(t *testing.T) {
	lasts := func(takeIt func(context.Context, nodes, string, string) bool, opt func(*redis.Options)) (d time.Duration) {
		sim.Run(t, func(w *sim.World) {
			all := cluster(w)
			a, rdbs := reach(w, "A", all, opt)
			all[0].Hang()
			all[1].Hang()
			a.Do(func() {
				require.True(t, takeIt(ctx, rdbs, key, newToken()))
				d = w.Now()
			})
			w.At(20 * time.Second)
		})
		return d
	}
	require.GreaterOrEqual(t, lasts(takeInTurn, func(o *redis.Options) { once(o); o.ReadTimeout = 2 * time.Second }), 4*time.Second,
		"the slip: of a lease of 30 seconds")
	require.Less(t, lasts(takeAtOnce, deadlines), 10*time.Millisecond, "mended: three nodes have answered")
}

// The caller's time is up, so the attempt has failed. The clean-up uses the caller's ctx and cleans nothing.
func TestCleanUpOnTheCallersContext(t *testing.T) {
	leaves := func(takeIt func(context.Context, nodes, string, string) bool) (key1 string) {
		sim.Run(t, func(w *sim.World) {
			all := cluster(w)
			a, rdbs := reach(w, "A", all, deadlines)
			for _, n := range all[1:] {
				n.Hang()
			}
			a.Do(func() {
				c, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				defer cancel()
				require.False(t, takeIt(c, rdbs, key, newToken()))
			})
			w.At(5 * time.Second)
			key1 = all[0].Value(key)
		})
		return key1
	}
	require.NotEmpty(t, leaves(takeOrGiveBack), "the slip: nobody holds the lock, and a vote is gone for a TTL")
	require.Empty(t, leaves(takeOrGiveBackMended), "mended")
}

// The lock took 15 of its 30 seconds to acquire. A bool does not say so, and the caller counts from now.
func TestValidityNotReturned(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		all := cluster(w)
		patient := func(o *redis.Options) { once(o); o.ReadTimeout = 15 * time.Second }
		a, rdbsA := reach(w, "A", all, patient)
		b, rdbsB := reach(w, "B", all, patient)
		all[3].Hang()
		var held bool
		a.Do(func() { held = lockMajority(ctx, rdbsA, key, newToken()) })
		w.At(16 * time.Second)
		all[3].Resume()
		require.True(t, held, "the slip: since 15s A believes that it has the lock until 45s")
		w.At(31 * time.Second)
		var inside bool
		b.Do(func() { inside = takeMajorityMended(ctx, rdbsB, key, newToken()) })
		require.True(t, inside, "the first three keys have ended, and B is inside")
	})
	sim.Run(t, func(w *sim.World) {
		all := cluster(w)
		a, rdbs := reach(w, "A", all, func(o *redis.Options) { once(o); o.ReadTimeout = 15 * time.Second })
		all[3].Hang()
		var left time.Duration
		a.Do(func() { left = validForMended(ctx, rdbs, key, newToken()) })
		w.At(16 * time.Second)
		require.Less(t, 15*time.Second+left, 30*time.Second, "mended: A knows that it has to stop before 30s")
		require.Positive(t, left)
	})
}
