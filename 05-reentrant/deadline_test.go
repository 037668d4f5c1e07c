package reentrant_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	reentrant "example.com/redislock/05-reentrant"
	"example.com/redislock/internal/wire"
)

// W3: whatever keeps the renewals from succeeding, Context ends before the key can expire, and not much earlier.
func TestContextEndsBeforeTheKey(t *testing.T) {
	for name, happen := range map[string]func(s *scene){
		"Redis hangs":   func(s *scene) { s.node.Hang() },
		"Redis refuses": func(s *scene) { s.node.Refuse("LOADING Redis is loading the dataset in memory") },
		"Redis is down": func(s *scene) { s.node.Crash() },
		"A is cut off":  func(s *scene) { s.a.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			stage(t, func(s *scene) {
				s.At(12 * time.Second) // the renewal at 10s has succeeded, so the key ends at 40s
				happen(s)
				s.At(39500 * time.Millisecond)
				require.NoError(t, s.k.Context().Err(), "it is still sure of its lease")
				s.At(39999 * time.Millisecond)
				lost(t, s.k, nil)
				require.NotContains(t, context.Cause(s.k.Context()).Error(), "nil", "it says what kept it")
				require.NotEmpty(t, s.node.Value(at), "the key is still there")
			})
		})
	}
}

// W3: Until is never later than the key's real end, however slow a reply is: the lease counts from before the request.
func TestUntilIsConservative(t *testing.T) {
	stage(t, func(s *scene) {
		require.Equal(t, lease-lease/100-2*time.Millisecond, time.Until(s.k.Until()))
		late := s.a.DeliverLate(wire.Extends)
		s.At(10*time.Second + 900*time.Millisecond) // a request may take a second
		require.True(t, late.Caught())
		late.Deliver() // the server starts the new lease now
		require.LessOrEqual(t, time.Until(s.k.Until()), s.node.TTL(at)-900*time.Millisecond)

		late = s.a.DeliverLate(wire.Acquires)
		var k *reentrant.Lock
		s.a.Do(func() { k, _ = s.locker.TryLock(ctx, "order:2", lease) })
		s.At(11*time.Second + 800*time.Millisecond)
		late.Deliver()
		require.LessOrEqual(t, time.Until(k.Until()), s.node.TTL("lock:order:2")-900*time.Millisecond)
		require.NoError(t, k.Unlock(ctx))

		k, err := s.locker.TryLock(ctx, "order:2", lease+999*time.Microsecond) // the key lives for whole milliseconds
		require.NoError(t, err)
		require.Equal(t, lease-lease/100-2*time.Millisecond, time.Until(k.Until()))
		require.NoError(t, k.Unlock(ctx))
	})
}

// W3: an Extend whose answer comes after the deadline moves nothing either, and says so.
func TestLateExtendRevivesNothing(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(12 * time.Second)
		s.node.Refuse("LOADING Redis is loading the dataset in memory") // no renewal succeeds
		s.At(39200 * time.Millisecond)
		s.node.Accept()
		late := s.a.DeliverLate(wire.Extends)
		var err error
		s.a.Do(func() { err = s.k.Extend(ctx, lease) })
		s.At(39800 * time.Millisecond) // the deadline was 39.698s, the key ends at 40s
		lost(t, s.k, nil)
		until := s.k.Until()
		late.Deliver()
		require.Equal(t, lease, s.node.TTL(at), "Redis has done it")
		require.ErrorIs(t, err, reentrant.ErrNotHeld)
		require.Equal(t, until, s.k.Until())
	})
}

// W3: a renewal that succeeds after the deadline does not revive the lock: the holder has been told.
func TestLateRenewalRevivesNothing(t *testing.T) {
	h := stage(t, func(s *scene) {
		s.At(25 * time.Second)
		s.node.Hang()
		s.At(49800 * time.Millisecond) // the deadline was 49.698s, the key ends at 50s
		lost(t, s.k, nil)
		s.node.Resume() // now the renewals that wait there are executed
		require.NotEmpty(t, s.node.Value(at))
		lost(t, s.k, nil)
		require.ErrorIs(t, s.k.Extend(ctx, lease), reentrant.ErrNotHeld)
		s.At(5 * time.Minute)
		require.Empty(t, s.node.Value(at), "nobody renews it any more")
	})
	require.NotEmpty(t, times(h, "extend", "1"))
}

// Extend makes a lease longer, and later renewals keep it so.
func TestExtendLonger(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		require.NoError(t, s.k.Extend(ctx, time.Hour))
		require.Equal(t, time.Hour, s.node.TTL(at))
		require.Greater(t, time.Until(s.k.Until()), 59*time.Minute)
		s.At(30 * time.Minute)
		require.Greater(t, time.Until(s.k.Until()), 49*time.Minute)
	})
}

// Extend makes a lease shorter, and the renewals come as often as that needs.
func TestExtendShorter(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		require.NoError(t, s.k.Extend(ctx, 3*time.Second))
		require.Equal(t, 3*time.Second, s.node.TTL(at))
		s.At(time.Minute)
		require.NoError(t, s.k.Context().Err())
		require.LessOrEqual(t, s.node.TTL(at), 3*time.Second)
	})
}

// W2: an Extend to more that fails changes nothing. The renewals go on as often as the lease that is left needs.
func TestFailedLengtheningChangesNothing(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		s.node.Refuse("LOADING Redis is loading the dataset in memory")
		require.Error(t, s.k.Extend(ctx, time.Hour))
		s.node.Accept()
		s.At(time.Minute)
		require.NoError(t, s.k.Context().Err())
		require.LessOrEqual(t, s.node.TTL(at), lease)
	})
}

// W2: after a request of unknown outcome the lease counts as short, so the renewals must come as often as a short one needs.
func TestLengtheningAfterAnUnknownOutcomeIsKept(t *testing.T) {
	stage(t, func(s *scene) {
		late := s.a.DeliverLate(wire.Extends) // the renewal at 10s
		s.At(12 * time.Second)
		require.True(t, late.Caught())
		require.NoError(t, s.k.Extend(ctx, time.Hour))
		s.At(5 * time.Minute)
		require.NoError(t, s.k.Context().Err())
		late.Deliver() // and now it shortens the lease to 30s
		require.LessOrEqual(t, time.Until(s.k.Until()), s.node.TTL(at))
		s.At(10 * time.Minute)
		require.NoError(t, s.k.Context().Err())
	})
}

// A shorter lease counts as shorter even if nobody knows whether the request arrived.
func TestUnknownShorteningShortensTheDeadline(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		s.node.Hang()
		require.Error(t, s.k.Extend(ctx, 5*time.Second))
		require.LessOrEqual(t, s.k.Until(), time.Now().Add(5*time.Second))
		s.At(6 * time.Second)
		lost(t, s.k, nil)
	})
}

// A short extension may arrive after a longer one that succeeded. Until has to expect it.
func TestLateShorteningIsExpected(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		late := s.a.DeliverLate(wire.Extends)
		require.Error(t, s.k.Extend(ctx, 5*time.Second))
		require.True(t, late.Caught())
		require.NoError(t, s.k.Extend(ctx, time.Minute))
		late.Deliver()
		require.Equal(t, 5*time.Second, s.node.TTL(at))
		require.LessOrEqual(t, time.Until(s.k.Until()), s.node.TTL(at))
	})
}

// A longer request that may be late as well does not hide the shorter one.
func TestLateShorteningIsNotForgotten(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		late := s.a.DeliverLate(wire.Extends)
		require.Error(t, s.k.Extend(ctx, 5*time.Second))
		s.a.DeliverLate(wire.Extends)
		require.Error(t, s.k.Extend(ctx, time.Minute))
		require.NoError(t, s.k.Extend(ctx, time.Minute))
		late.Deliver()
		require.Equal(t, 5*time.Second, s.node.TTL(at))
		require.LessOrEqual(t, time.Until(s.k.Until()), s.node.TTL(at))
	})
}

// A shortening that Redis refuses costs nothing: the renewals come as often as the short lease needs, and nothing is late.
func TestRefusedShorteningCostsNothing(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		s.node.Refuse("LOADING Redis is loading the dataset in memory")
		require.Error(t, s.k.Extend(ctx, 600*time.Millisecond))
		s.node.Accept()
		s.At(10 * time.Second)
		require.NoError(t, s.k.Context().Err())
		require.NoError(t, s.k.Extend(ctx, time.Hour))
		require.Greater(t, time.Until(s.k.Until()), 59*time.Minute)
	})
}

// The requests of one lease go out one after the other, so that Redis ends with the ttl that the lease counts with.
func TestOneRequestAtATime(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		late := s.a.DeliverLate(wire.Extends)
		var first, second error
		s.a.Do(func() { first = s.k.Extend(ctx, 5*time.Second) })
		s.At(1200 * time.Millisecond)
		go func() { second = s.k.Extend(ctx, time.Minute) }()
		s.At(1400 * time.Millisecond)
		require.LessOrEqual(t, s.node.TTL(at), lease, "the second waits for the first")
		late.Deliver()
		s.At(1600 * time.Millisecond)
		require.NoError(t, first)
		require.NoError(t, second)
		require.Greater(t, s.node.TTL(at), 59*time.Second)
		require.LessOrEqual(t, time.Until(s.k.Until()), s.node.TTL(at))
	})
}

// A2: an acquisition that took too long is taken back once its request is no longer on its way, not before.
func TestLateAcquisitionIsTakenBack(t *testing.T) {
	stage(t, func(s *scene) {
		late := s.a.DeliverLate(wire.Acquires)
		var err error
		s.a.Do(func() { _, err = s.locker.TryLock(ctx, "order:2", lease) })
		s.At(1500 * time.Millisecond)
		require.ErrorContains(t, err, "no answer within 1s")
		s.At(2 * time.Second)
		late.Deliver()
		s.At(3 * time.Second)
		require.Empty(t, s.node.Value("lock:order:2"))
	})
}

// R3: a ctx that has ended before says nothing about how long an Unlock may take.
func TestUnlockOnAnEndedContextWaitsForItsAnswer(t *testing.T) {
	stage(t, func(s *scene) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		late := s.a.DeliverLate(wire.Releases)
		err := context.Canceled
		s.a.Do(func() { err = s.k.Unlock(ended) })
		s.At(500 * time.Millisecond)
		late.Deliver()
		s.At(time.Second)
		require.NoError(t, err)
	})
}

// An Unlock does not wait for a renewal that hangs.
func TestUnlockWhileARenewalHangs(t *testing.T) {
	stage(t, func(s *scene) {
		s.a.DeliverLate(wire.Extends)
		s.At(10*time.Second + 500*time.Millisecond)
		start := time.Now()
		require.NoError(t, s.k.Unlock(ctx))
		require.Zero(t, time.Since(start))
		require.Empty(t, s.node.Value(at))
	})
}

// An Unlock does not wait for an Extend that hangs either, however long a request may take.
func TestUnlockWhileAnExtendHangs(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		late := s.a.DeliverLate(wire.Extends)
		var err error
		s.a.Do(func() { err = s.k.Extend(ctx, lease) })
		s.At(2 * time.Second)
		require.True(t, late.Caught())
		start := time.Now()
		require.NoError(t, s.k.Unlock(ctx))
		require.Zero(t, time.Since(start))
		require.Empty(t, s.node.Value(at))
		s.At(3 * time.Second)
		require.ErrorIs(t, err, reentrant.ErrNotHeld)
	}, reentrant.WithRequestTimeout(15*time.Second))
}

// A3: an Extend that waits for its turn heeds its ctx, however long the request before it takes.
func TestExtendThatWaitsHeedsItsContext(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(9 * time.Second)
		late := s.a.DeliverLate(wire.Extends)
		s.At(10*time.Second + 200*time.Millisecond)
		require.True(t, late.Caught())
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.k.Extend(short, lease), context.DeadlineExceeded)
		require.Equal(t, 10*time.Second+300*time.Millisecond, s.Now())
	})
}

// R3: an answer that comes a moment after ctx has ended is still told.
func TestUnlockWaitsAMomentLonger(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		late := s.a.DeliverLate(wire.Releases)
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		err := context.DeadlineExceeded
		s.a.Do(func() { err = s.k.Unlock(short) })
		s.At(time.Second + 130*time.Millisecond)
		late.Deliver()
		s.At(2 * time.Second)
		require.NoError(t, err)
	})
}

// R4: an Unlock whose ctx ended could not say how it went on. The next one can.
func TestNextUnlockKnowsTheOutcome(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		s.node.Hang()
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.k.Unlock(short), context.DeadlineExceeded)
		s.node.Resume()
		s.At(2 * time.Second)
		require.Empty(t, s.node.Value(at), "the request went on")
		require.NoError(t, s.k.Unlock(ctx))
		require.ErrorIs(t, s.k.Unlock(ctx), reentrant.ErrNotHeld)
	})
}

// R4: if nobody knows how it went on, the next Unlock asks again, and does not repeat an old error.
func TestNextUnlockAsksAgain(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		s.a.Cut()
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.k.Unlock(short), context.DeadlineExceeded)
		s.At(10 * time.Second)
		s.a.Heal()
		require.NotEmpty(t, s.node.Value(at))
		require.NoError(t, s.k.Unlock(ctx))
		require.Empty(t, s.node.Value(at))
	})
}
