package failover_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	failover "example.com/redislock/07-failover-demo"
	"example.com/redislock/internal/sim"
)

func newGuard(t *testing.T) *failover.Guard {
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	return failover.NewGuard(rdb)
}

// F3: old, new, newer. The guard lets a holder pass again and again until a newer one has been there, and then never.
func TestGuardRefusesOlderHolders(t *testing.T) {
	g := newGuard(t)
	require.NoError(t, g.Write(ctx, "stock", "100", 34))
	require.NoError(t, g.Write(ctx, "stock", "99", 34), "the same holder")
	require.ErrorIs(t, g.Write(ctx, "stock", "old", 33), failover.ErrStale)
	require.NoError(t, g.Write(ctx, "stock", "98", 35), "a newer holder")
	require.ErrorIs(t, g.Write(ctx, "stock", "old", 34), failover.ErrStale)
	value, err := g.Read(ctx, "stock", 35)
	require.NoError(t, err)
	require.Equal(t, "98", value)
}

// A newer holder that has only read is protected too: what it will write rests on what it has read.
func TestGuardRemembersReaders(t *testing.T) {
	g := newGuard(t)
	require.NoError(t, g.Write(ctx, "stock", "100", 1))
	value, err := g.Read(ctx, "stock", 2)
	require.NoError(t, err)
	require.Equal(t, "100", value)
	require.ErrorIs(t, g.Write(ctx, "stock", "99", 1), failover.ErrStale)
	_, err = g.Read(ctx, "stock", 1)
	require.ErrorIs(t, err, failover.ErrStale)
}

// Tokens are numbers and not texts: 9 is older than 10.
func TestGuardComparesNumbers(t *testing.T) {
	g := newGuard(t)
	require.NoError(t, g.Write(ctx, "stock", "a", 10))
	require.ErrorIs(t, g.Write(ctx, "stock", "b", 9), failover.ErrStale)
	require.Error(t, g.Write(ctx, "stock", "b", 0), "no token at all")
}

// Two holders race a thousand times. Whoever is older never has the last word.
func TestGuardInARace(t *testing.T) {
	g, races := newGuard(t), 1000
	if sim.RaceDetector {
		races = 250 // slow, and repeated
	}
	for i := range races {
		key := fmt.Sprint("stock", i)
		var both sync.WaitGroup
		both.Go(func() { _ = g.Write(ctx, key, "old", 1) })
		both.Go(func() { _ = g.Write(ctx, key, "new", 2) })
		both.Wait()
		value, err := g.Read(ctx, key, 2)
		require.NoError(t, err)
		require.Equal(t, "new", value)
	}
}
