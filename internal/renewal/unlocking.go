package renewal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// unlocking is how a lease ends by the will of its holder.
var unlocking = []promise{
	{name: "W1_renewal_ends_before_the_release", keep: renewalEndsBeforeTheRelease},
	{name: "W1_nothing_renews_during_an_unlock", keep: nothingRenewsDuringAnUnlock},
	{name: "W1_unlock_waits_for_the_renewer", keep: unlockWaitsForTheRenewer, majority: ownCtx},
	{name: "do_tells_the_work", keep: doTellsTheWork},
	{name: "R8_panic_in_do_ends_the_renewal", keep: panicInDoEndsTheRenewal},
	{name: "concurrent_unlock_and_extend", keep: concurrentUnlockAndExtend},
	{name: "R4_known_loss_is_no_lost_reply", keep: knownLossIsNoLostReply},
	{name: "R3_unlock_on_an_ended_context_waits_for_its_answer", keep: unlockOnAnEndedContextWaitsForItsAnswer},
	{name: "unlock_while_a_renewal_hangs", keep: unlockWhileARenewalHangs, majority: oneByOne},
	{name: "unlock_while_an_extend_hangs", keep: unlockWhileAnExtendHangs, majority: oneByOne},
	{name: "R3_unlock_waits_a_moment_longer", keep: unlockWaitsAMomentLonger},
	{name: "R4_next_unlock_knows_the_outcome", keep: nextUnlockKnowsTheOutcome},
	{name: "R4_next_unlock_asks_again", keep: nextUnlockAsksAgain},
}

// slow is a ctx that keeps whoever asks for its deadline waiting. send does that right before it sends.
type slow struct {
	context.Context
	goOn chan struct{}
}

func (s slow) Deadline() (time.Time, bool) {
	<-s.goOn
	return s.Context.Deadline()
}

// Many locks, each renewed every millisecond. None leaves a key or a goroutine, or says "lost".
func renewalEndsBeforeTheRelease(t *testing.T, ch chapter) {
	locks := 500
	if sim.RaceDetector {
		locks = 150 // slow, and repeated
	}
	h := ch.stage(t, func(s *scene) {
		require.NoError(t, s.k.Unlock(ctx))
		for range locks {
			k, err := s.locker.TryLock(ctx, "order:1", lease)
			require.NoError(t, err)
			time.Sleep(3500 * time.Microsecond) // virtual
			require.NoError(t, k.Unlock(ctx))
			require.Equal(t, context.Canceled, context.Cause(k.Context()))
			require.Empty(t, s.node.Value(at))
		}
		time.Sleep(time.Minute) // virtual: nothing may renew now
	}, Options{RenewEvery: time.Millisecond})
	require.Len(t, times(h, "extend", "1"), 3*locks)
	require.Empty(t, times(h, "extend", "0"))
}

// The renewal ends before the release is sent, and not with its answer: nothing renews while an Unlock takes its time.
func nothingRenewsDuringAnUnlock(t *testing.T, ch chapter) {
	h := ch.stage(t, func(s *scene) {
		s.At(9 * time.Second)
		late := s.a.DeliverLate(wire.Releases)
		err := errors.New("it has not returned")
		s.a.Do(func() { err = s.k.Unlock(ctx) })
		s.At(10*time.Second + 500*time.Millisecond)
		late.Deliver()
		s.At(11 * time.Second)
		require.NoError(t, err)
	})
	require.Empty(t, times(h, "extend", "1"))
}

// An Unlock waits for a renewer that has made up its mind and has not sent anything yet.
func unlockWaitsForTheRenewer(t *testing.T, ch chapter) {
	h := ch.stage(t, func(s *scene) {
		slow := slow{ctx, make(chan struct{})}
		s.a.Do(func() { _ = s.k.Extend(slow, lease) })
		unlocked := false
		go func() {
			_ = s.k.Unlock(ctx)
			unlocked = true
		}()
		s.At(time.Second)
		require.False(t, unlocked)
		require.NotEmpty(t, s.node.Value(at))
		close(slow.goOn)
		s.At(2 * time.Second)
		require.True(t, unlocked)
		require.Empty(t, s.node.Value(at))
	})
	require.Empty(t, times(h, "extend", "1"))
}

// The work in Do runs under a context that ends with the lease, and Do says why.
func doTellsTheWork(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		broken := errors.New("work stopped")
		s.At(time.Second)
		err := s.locker.Do(ctx, "order:2", lease, func(work context.Context) error {
			s.node.Delete("lock:order:2")
			<-work.Done()
			require.ErrorIs(t, context.Cause(work), ch.ErrLost)
			return broken
		})
		require.Equal(t, 11*time.Second, s.Now())
		var after context.Context
		require.NoError(t, s.locker.Do(ctx, "order:3", lease, func(work context.Context) error { after = work; return nil }))
		require.Error(t, after.Err(), "what the work has left running ends with it")
		for _, want := range []error{broken, ch.ErrLost, ch.ErrExpired} {
			require.ErrorIs(t, err, want)
		}
		acquire, cancel := context.WithCancel(ctx)
		err = s.locker.Do(acquire, "order:2", lease, func(work context.Context) error {
			cancel()
			<-work.Done()
			return nil
		})
		require.NoError(t, err, "the caller's cancel ends the work, and the lock is freed")
		require.Empty(t, s.node.Value("lock:order:2"))
	})
}

// A panic ends the renewal with the lock.
func panicInDoEndsTheRenewal(t *testing.T, ch chapter) {
	h := ch.stage(t, func(s *scene) {
		require.NoError(t, s.k.Unlock(ctx))
		require.PanicsWithValue(t, "oops", func() {
			_ = s.locker.Do(ctx, "order:1", lease, func(context.Context) error { panic("oops") })
		})
		require.Empty(t, s.node.Value(at))
		s.At(5 * time.Minute)
	})
	require.Empty(t, slices.Concat(times(h, "extend", "1"), times(h, "extend", "0")))
}

// Twenty goroutines unlock and extend one handle. One Unlock succeeds, nothing is renewed later, and an Extend that was
// on its way when it came changes nothing.
func concurrentUnlockAndExtend(t *testing.T, ch chapter) {
	h := ch.stage(t, func(s *scene) {
		var all sync.WaitGroup
		var mu sync.Mutex
		unlocked := 0
		for range 20 {
			all.Go(func() { _ = s.k.Extend(ctx, lease) })
			all.Go(func() {
				if s.k.Unlock(ctx) == nil {
					mu.Lock()
					unlocked++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		require.Equal(t, 1, unlocked)
		require.Empty(t, s.node.Value(at))
		s.At(time.Minute)
	})
	require.Len(t, times(h, "release", "1"), 1)
	for _, at := range slices.Concat(times(h, "extend", "1"), times(h, "extend", "0")) {
		require.Zero(t, at, "the renewal went on")
	}
}

// A loss that is known stays a loss, although the Unlock is sent twice and finds nothing the second time either.
func knownLossIsNoLostReply(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		s.node.Delete(at)
		s.At(11 * time.Second)
		ch.lost(t, s.k, ch.ErrExpired)
		require.False(t, s.k.Until().After(time.Now()))
		s.a.LoseReply(wire.Releases, 1)
		require.ErrorIs(t, s.k.Unlock(ctx), ch.ErrExpired)
	})
}

// A ctx that has ended before says nothing about how long an Unlock may take.
func unlockOnAnEndedContextWaitsForItsAnswer(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
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
func unlockWhileARenewalHangs(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		s.a.DeliverLate(wire.Extends)
		s.At(10*time.Second + 500*time.Millisecond)
		start := time.Now()
		require.NoError(t, s.k.Unlock(ctx))
		require.Zero(t, time.Since(start))
		require.Empty(t, s.node.Value(at))
	})
}

// An Unlock does not wait for an Extend that hangs either, however long a request may take.
func unlockWhileAnExtendHangs(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
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
		require.ErrorIs(t, err, ch.ErrNotHeld)
	}, Options{RequestTimeout: 15 * time.Second})
}

// An answer that comes a moment after ctx has ended is still told.
func unlockWaitsAMomentLonger(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
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

// An Unlock whose ctx ended could not say how it went on. The next one can.
func nextUnlockKnowsTheOutcome(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		s.At(time.Second)
		s.node.Hang()
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.k.Unlock(short), context.DeadlineExceeded)
		s.node.Resume()
		s.At(2 * time.Second)
		require.Empty(t, s.node.Value(at), "the request went on")
		require.NoError(t, s.k.Unlock(ctx))
		require.ErrorIs(t, s.k.Unlock(ctx), ch.ErrNotHeld)
	})
}

// If nobody knows how it went on, the next Unlock asks again, and does not repeat an old error.
func nextUnlockAsksAgain(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
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
