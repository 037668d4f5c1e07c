package reentrant_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	reentrant "example.com/redislock/05-reentrant"
	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/story"
	"example.com/redislock/internal/wire"
)

// The owner enters again, at depth 2. The inner Unlock leaves the lock with the outer one, and the last frees it.
func TestNestedLock(t *testing.T) { story.Tell(t, story.NestedLock) }

// An inner lock with a shorter ttl leaves the outer's lease as it is, in Redis and in what both handles count on.
func TestInnerNeverShortens(t *testing.T) {
	stage(t, func(s *scene) {
		until := s.k.Until()
		s.At(time.Second)
		inner := s.again(5 * time.Second)
		require.Equal(t, 29*time.Second, s.node.TTL(at))
		require.Equal(t, until, s.k.Until())
		require.Equal(t, until, inner.Until())
		require.NoError(t, inner.Extend(ctx, 2*time.Second))
		require.GreaterOrEqual(t, s.node.TTL(at), 29*time.Second)
		s.At(time.Minute)
		require.NoError(t, s.k.Context().Err())
		require.NoError(t, inner.Unlock(ctx))
	})
}

// An inner lock with a longer ttl makes the lease longer, and the renewals keep it so for as long as the inner lock lasts.
func TestInnerLengthens(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		inner := s.again(time.Hour)
		require.Equal(t, time.Hour, s.node.TTL(at))
		require.Greater(t, time.Until(s.k.Until()), 59*time.Minute, "the outer handle knows")
		s.At(11 * time.Second)
		require.Greater(t, s.node.TTL(at), 59*time.Minute, "after the renewal at 10s")
		require.NoError(t, inner.Unlock(ctx))
		require.Greater(t, s.node.TTL(at), 59*time.Minute, "an Unlock touches no TTL")
		s.At(90 * time.Minute)
		require.NoError(t, s.k.Context().Err())
		require.LessOrEqual(t, s.node.TTL(at), lease, "nobody wants an hour any more")
	})
}

// An inner Unlock takes its token out, and leaves the TTL and the outer handle as they are. The order is free.
func TestUnlockInAnyOrder(t *testing.T) {
	stage(t, func(s *scene) {
		second, third := s.again(lease), s.again(lease)
		s.At(time.Second)
		require.NoError(t, second.Unlock(ctx))
		require.Equal(t, s.value(s.k, third), s.node.Value(at))
		require.Equal(t, 29*time.Second, s.node.TTL(at))
		require.Equal(t, context.Canceled, context.Cause(second.Context()))
		require.NoError(t, s.k.Context().Err())

		require.NoError(t, s.k.Unlock(ctx), "the outermost before the innermost")
		require.Equal(t, 1, s.depth())
		require.Equal(t, 29*time.Second, s.node.TTL(at))
		s.At(time.Minute)
		require.NoError(t, third.Context().Err(), "the last is renewed on")
		require.NoError(t, third.Unlock(ctx))
		require.Empty(t, s.node.Value(at))
	})
}

// One renewer per hold, whatever the depth, until the last Unlock: one renewal every ten seconds.
func TestOneRenewerPerHold(t *testing.T) {
	h := stage(t, func(s *scene) {
		all := []*reentrant.Lock{s.again(lease), s.again(lease), s.again(lease)}
		s.At(31 * time.Second)
		for _, k := range all {
			require.NoError(t, k.Unlock(ctx))
		}
		s.At(61 * time.Second)
		require.NoError(t, s.k.Unlock(ctx))
		s.At(2 * time.Minute)
	})
	require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, 40 * time.Second, 50 * time.Second, time.Minute},
		times(h, "extend", "1"))
	require.Empty(t, times(h, "extend", "0"))
}

// Each handle asks for what it wants. The lease lasts as long as the longest that is still wanted.
func TestExtendOfOneHandle(t *testing.T) {
	stage(t, func(s *scene) {
		inner := s.again(lease)
		require.NoError(t, inner.Extend(ctx, time.Hour))
		require.Equal(t, time.Hour, s.node.TTL(at))
		require.NoError(t, s.k.Extend(ctx, 10*time.Second))
		require.Equal(t, time.Hour, s.node.TTL(at), "the inner one still wants an hour")
		require.NoError(t, inner.Extend(ctx, time.Minute))
		require.Equal(t, time.Minute, s.node.TTL(at), "nobody wants more")
		require.LessOrEqual(t, time.Until(s.k.Until()), time.Minute)
		require.NoError(t, inner.Unlock(ctx))
		require.ErrorIs(t, inner.Extend(ctx, time.Hour), reentrant.ErrNotHeld)
		require.Equal(t, time.Minute, s.node.TTL(at))
	})
}

// An Extend that is on its way while its handle is unlocked has no say in the renewals that follow.
func TestExtendOfAHandleThatGoes(t *testing.T) {
	stage(t, func(s *scene) {
		inner := s.again(lease)
		s.At(time.Second)
		late := s.a.DeliverLate(wire.Extends)
		var err error
		s.a.Do(func() { err = inner.Extend(ctx, time.Hour) })
		s.At(1200 * time.Millisecond)
		require.NoError(t, inner.Unlock(ctx))
		s.At(1400 * time.Millisecond)
		late.Deliver()
		s.At(1600 * time.Millisecond)
		require.NoError(t, err, "Redis has done it")
		s.At(90 * time.Minute)
		require.LessOrEqual(t, s.node.TTL(at), lease)
	})
}

// An Extend that still waits for its turn when its handle is unlocked ends there. If it has just got its turn, it sends nothing.
func TestExtendEndsWithItsHandle(t *testing.T) {
	h := stage(t, func(s *scene) {
		inner := s.again(lease)
		s.At(9 * time.Second)
		late := s.a.DeliverLate(wire.Extends) // the renewal at 10s
		s.At(10*time.Second + 200*time.Millisecond)
		require.True(t, late.Caught())
		var err error
		s.a.Do(func() { err = inner.Extend(ctx, time.Hour) })
		s.At(10*time.Second + 400*time.Millisecond)
		require.NoError(t, inner.Unlock(ctx))
		s.At(10*time.Second + 500*time.Millisecond)
		require.ErrorIs(t, err, reentrant.ErrNotHeld)
		require.ErrorIs(t, reentrant.ExtendLate(inner, time.Hour), reentrant.ErrNotHeld)
	})
	require.Empty(t, times(h, "extend", "1"))
}

// An inner lock that comes while a renewal is on its way is not shortened by it: it doesn't know the new token.
func TestLateRenewalDoesNotShortenTheInner(t *testing.T) {
	stage(t, func(s *scene) {
		late := s.a.DeliverLate(wire.Extends)
		s.At(10*time.Second + 500*time.Millisecond)
		require.True(t, late.Caught())
		inner := s.again(time.Hour)
		late.Deliver()
		require.Equal(t, time.Hour, s.node.TTL(at))
		s.At(11 * time.Second)
		require.Greater(t, time.Until(inner.Until()), 59*time.Minute, "and its answer moves nothing back")
		require.LessOrEqual(t, time.Until(inner.Until()), s.node.TTL(at))
		require.NoError(t, inner.Unlock(ctx))
	})
}

// When the key is lost, every handle's context says so, and nobody's Unlock claims to have freed it.
func TestLossIsToldToAllHandles(t *testing.T) {
	stage(t, func(s *scene) {
		all := []*reentrant.Lock{s.k, s.again(lease), s.again(lease)}
		s.At(time.Second)
		s.node.Delete(at)
		s.At(11 * time.Second)
		for _, k := range all {
			lost(t, k, reentrant.ErrExpired)
			require.ErrorIs(t, k.Extend(ctx, lease), reentrant.ErrNotHeld)
			require.ErrorIs(t, k.Unlock(ctx), reentrant.ErrExpired)
		}
	})
}

// R5, F4: the key was gone, and its owner holds it again. The old handles are lost at once, can neither free the new hold nor
// prolong it, and the new hold outlives them.
func TestStaleHandleOfTheSameOwner(t *testing.T) {
	stage(t, func(s *scene) {
		old := s.again(time.Hour)
		s.At(time.Second)
		s.node.Delete(at)
		k := s.again(lease)
		s.At(2 * time.Second)
		for _, stale := range []*reentrant.Lock{s.k, old} {
			lost(t, stale, reentrant.ErrExpired)
			require.ErrorIs(t, stale.Extend(ctx, lease), reentrant.ErrNotHeld)
			require.ErrorIs(t, stale.Unlock(ctx), reentrant.ErrStolen)
		}
		require.Equal(t, 1, reentrant.Leases(s.mine), "and the owner still knows of the new one")
		require.Equal(t, s.value(k), s.node.Value(at))
		require.Equal(t, lease-time.Second, s.node.TTL(at))
		s.At(time.Minute)
		require.NoError(t, k.Context().Err())
		require.LessOrEqual(t, s.node.TTL(at), lease, "the old hour is nobody's")
		require.NoError(t, k.Unlock(ctx))
		require.Empty(t, s.node.Value(at))
	})
}

// A lease that has ended by itself revives for no old handle, though its owner comes back before the key has expired.
func TestReentryAfterTheLease(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(9 * time.Second)
		s.node.Refuse("LOADING Redis is loading the dataset in memory")
		s.At(29800 * time.Millisecond) // the deadline was 29.698s, the key ends at 30s
		lost(t, s.k, nil)
		s.node.Accept()
		k := s.again(lease)
		require.Equal(t, s.value(s.k, k), s.node.Value(at))
		lost(t, s.k, nil)
		require.NoError(t, k.Context().Err())
		s.At(time.Minute)
		require.NoError(t, k.Context().Err(), "it is renewed")
		require.NoError(t, k.Unlock(ctx))
		require.Equal(t, 1, s.depth())
		require.NoError(t, s.k.Unlock(ctx))
		require.Empty(t, s.node.Value(at))
	})
}

// A key that somebody made persistent stays so when its owner enters and leaves: a TTL would shorten it. The renewal sets one again.
func TestPersistedKey(t *testing.T) {
	stage(t, func(s *scene) {
		value := s.node.Value(at)
		s.node.Set(at, value, 0)
		inner := s.again(5 * time.Second)
		require.Equal(t, sim.Forever, s.node.TTL(at))
		require.NoError(t, inner.Unlock(ctx))
		require.Equal(t, value, s.node.Value(at))
		require.Equal(t, sim.Forever, s.node.TTL(at))
		s.At(11 * time.Second)
		require.LessOrEqual(t, s.node.TTL(at), lease)
		require.Positive(t, s.node.TTL(at))
	})
}

// W7: the longest hold counts from the first acquisition. An inner one adds nothing to it.
func TestMaxHoldIsTheHolds(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(60 * time.Second)
		inner := s.again(lease)
		require.LessOrEqual(t, time.Until(inner.Until()), 10*time.Second)
		s.At(70*time.Second + time.Millisecond)
		for _, k := range []*reentrant.Lock{s.k, inner} {
			lost(t, k, nil)
			require.Contains(t, context.Cause(k.Context()).Error(), "longest time allowed")
		}
		require.LessOrEqual(t, s.node.TTL(at), 20*time.Second, "nobody renews the key")
	}, reentrant.WithMaxHold(70*time.Second))
}
