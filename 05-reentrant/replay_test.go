package reentrant_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	reentrant "example.com/redislock/05-reentrant"
	"example.com/redislock/internal/wire"
)

// A1: an acquisition whose reply is lost is sent again, up to three times, and counts once, at depth 1 and at depth 2.
func TestReplayedAcquisitionCountsOnce(t *testing.T) {
	stage(t, func(s *scene) {
		require.NoError(t, s.k.Unlock(ctx))
		s.a.LoseReply(wire.Acquires, 3)
		outer := s.again(lease)
		require.Equal(t, s.value(outer), s.node.Value(at))
		s.a.LoseReply(wire.Acquires, 3)
		inner := s.again(lease)
		require.Equal(t, s.value(outer, inner), s.node.Value(at))
		require.NoError(t, inner.Unlock(ctx))
		require.NoError(t, outer.Unlock(ctx))
		require.Empty(t, s.node.Value(at), "as many Unlocks as Locks free it")
	})
}

// R4: a release whose reply is lost is sent again, and counts once, at depth 2 and at depth 1.
func TestReplayedReleaseCountsOnce(t *testing.T) {
	h := stage(t, func(s *scene) {
		second, third := s.again(lease), s.again(lease)
		s.a.LoseReply(wire.Releases, 3)
		require.NoError(t, third.Unlock(ctx))
		require.Equal(t, s.value(s.k, second), s.node.Value(at))
		require.NoError(t, second.Unlock(ctx))
		require.NoError(t, s.k.Context().Err())
		s.a.LoseReply(wire.Releases, 3)
		require.NoError(t, s.k.Unlock(ctx))
		require.Empty(t, s.node.Value(at))
	})
	require.Len(t, times(h, "release", "-1"), 1, "the last copy at depth 2 finds its token gone")
	require.Len(t, times(h, "release", "0"), 1, "the last copy at depth 1 finds the key gone")
}

// N3: an Unlock too many is ErrNotHeld and writes nothing: no value, no TTL, no key that was free.
func TestExtraUnlockWritesNothing(t *testing.T) {
	h := stage(t, func(s *scene) {
		inner := s.again(lease)
		s.At(time.Second)
		require.NoError(t, inner.Unlock(ctx))
		value := s.node.Value(at)
		for range 3 {
			require.ErrorIs(t, inner.Unlock(ctx), reentrant.ErrNotHeld)
		}
		require.Equal(t, value, s.node.Value(at))
		require.Equal(t, 29*time.Second, s.node.TTL(at))
		require.NoError(t, s.k.Unlock(ctx))
		for range 3 {
			require.ErrorIs(t, s.k.Unlock(ctx), reentrant.ErrNotHeld)
		}
		require.Empty(t, s.node.Value(at))
		require.Zero(t, s.node.TTL(at))
	})
	require.Len(t, times(h, "release", "1"), 2)
}

// The same at Redis, where no handle guards it: a release with a token that is not on the list changes nothing.
func TestReleaseOfAnUnknownToken(t *testing.T) {
	stage(t, func(s *scene) {
		second := s.again(lease)
		late := s.a.DeliverLate(wire.Releases)
		var err error
		s.a.Do(func() { err = second.Unlock(ctx) })
		s.At(500 * time.Millisecond)
		s.node.Delete(at)
		k := s.again(lease)
		late.Deliver()
		s.At(time.Second)
		require.ErrorIs(t, err, reentrant.ErrStolen)
		require.Equal(t, s.value(k), s.node.Value(at))
		require.Equal(t, lease-500*time.Millisecond, s.node.TTL(at))
	})
}

// A2: an inner attempt of unknown outcome is taken back, and the outer lock stays as it is.
func TestInnerAttemptIsTakenBack(t *testing.T) {
	stage(t, func(s *scene) {
		late := s.a.DeliverLate(wire.Acquires)
		var err error
		s.a.Do(func() { _, err = s.locker.TryLock(s.mine, "order:1", lease) })
		s.At(2 * time.Second)
		require.ErrorContains(t, err, "may stay taken")
		late.Deliver()
		s.At(3 * time.Second)
		require.Equal(t, s.value(s.k), s.node.Value(at))
		inner := s.again(lease)
		require.Equal(t, s.value(s.k, inner), s.node.Value(at))
		require.NoError(t, inner.Unlock(ctx))
	})
}

// A2: a copy that arrives after that can't be taken back. The outer lock works on, nobody renews for the copy, and after the last
// Unlock it stays for what is left of the TTL.
func TestInnerAttemptThatArrivesTooLate(t *testing.T) {
	stage(t, func(s *scene) {
		late := s.a.DeliverLate(wire.Acquires)
		s.a.Do(func() { _, _ = s.locker.TryLock(s.mine, "order:1", lease) })
		s.At(5 * time.Second) // go-redis has given up, and the clean-up has found nothing
		require.Equal(t, s.value(s.k), s.node.Value(at))
		late.Deliver()
		require.Equal(t, 2, s.depth())
		s.At(time.Minute)
		require.NoError(t, s.k.Context().Err())
		require.NoError(t, s.k.Unlock(ctx))
		require.Equal(t, 1, s.depth())
		require.LessOrEqual(t, s.node.TTL(at), lease)
		s.At(91 * time.Second)
		require.Empty(t, s.node.Value(at))
	})
}
