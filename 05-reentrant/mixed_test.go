package reentrant_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	reentrant "example.com/redislock/05-reentrant"
	"example.com/redislock/internal/redistest"
	"example.com/redislock/internal/story"
)

// Whoever still has a lock of chapters 2 to 4 on the key excludes this one, and is excluded by it, at depth 1 and 2. All say
// "taken" and "stolen", nobody harms the other's key, and no lock finds a value that it can't read.
func TestMixedWithEarlierLocks(t *testing.T) {
	for _, number := range []string{"02", "03", "04"} {
		ch, ok := story.ByNumber(number)
		require.True(t, ok)
		t.Run(ch.Dir, func(t *testing.T) {
			stage(t, func(s *scene) {
				earlier := ch.New(s.Client("B", s.node).Redis())
				inner := s.again(lease)
				ours := s.node.Value(at)
				_, err := earlier.TryLock(ctx, "order:1", lease)
				require.ErrorIs(t, err, ch.ErrNotAcquired)
				require.Equal(t, ours, s.node.Value(at))
				require.NoError(t, inner.Unlock(ctx))
				require.NoError(t, s.k.Unlock(ctx))

				theirs, err := earlier.TryLock(ctx, "order:1", lease)
				require.NoError(t, err)
				value := s.node.Value(at)
				_, err = s.locker.TryLock(s.mine, "order:1", lease)
				require.ErrorIs(t, err, reentrant.ErrNotAcquired)
				require.NotContains(t, err.Error(), "WRONGTYPE")
				short, cancel := context.WithTimeout(s.mine, time.Second)
				defer cancel()
				_, err = s.locker.Lock(short, "order:1", lease)
				require.ErrorIs(t, err, reentrant.ErrNotAcquired)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, value, s.node.Value(at))

				s.node.Delete(at) // their lease ends, and they don't know
				k := s.again(lease)
				require.ErrorIs(t, theirs.Unlock(ctx), ch.ErrStolen)
				require.Equal(t, s.value(k), s.node.Value(at))

				s.node.Delete(at) // and now ours
				theirs, err = earlier.TryLock(ctx, "order:1", lease)
				require.NoError(t, err)
				value = s.node.Value(at)
				require.ErrorIs(t, k.Extend(ctx, lease), reentrant.ErrStolen)
				require.ErrorIs(t, k.Unlock(ctx), reentrant.ErrStolen)
				require.Equal(t, value, s.node.Value(at))
				require.NoError(t, theirs.Unlock(ctx))
			})
		})
	}
}

// A real Redis that is out of memory refuses a further acquisition and the inner one. It renews what is held, and counts it
// down, though a shorter value is a write too. The key keeps its TTL meanwhile, and goes with the last Unlock.
func TestReleaseWithoutMemory(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(t)
	mine, locker := reentrant.WithOwner(ctx), reentrant.New(rdb)
	var held []*reentrant.Lock
	for range 3 {
		k, err := locker.TryLock(mine, "order:1", lease)
		require.NoError(t, err)
		held = append(held, k)
	}
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	value := rdb.Get(ctx, at).Val()
	for _, refused := range []func() (*reentrant.Lock, error){
		func() (*reentrant.Lock, error) { return locker.TryLock(mine, "order:1", lease) },
		func() (*reentrant.Lock, error) { return locker.TryLock(ctx, "order:2", lease) },
	} {
		_, err := refused()
		require.ErrorContains(t, err, "OOM")
		require.NotErrorIs(t, err, reentrant.ErrNotAcquired)
	}
	require.Equal(t, value, rdb.Get(ctx, at).Val())
	require.NoError(t, held[0].Extend(ctx, lease))

	for i := 2; i >= 0; i-- {
		require.NoError(t, held[i].Unlock(ctx))
		require.ErrorIs(t, held[i].Unlock(ctx), reentrant.ErrNotHeld)
		if i == 0 {
			break
		}
		value = value[:len(value)-33]
		require.Equal(t, value, rdb.Get(ctx, at).Val())
		ttl := rdb.PTTL(ctx, at).Val()
		require.Positive(t, ttl)
		require.LessOrEqual(t, ttl, lease)
		require.NoError(t, held[0].Context().Err())
	}
	require.Zero(t, rdb.Exists(ctx, at).Val())
}
