package renewal

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/wire"
)

// deadlines is until when a lease counts.
var deadlines = []promise{
	{name: "W3_context_ends_before_the_key", keep: contextEndsBeforeTheKey},
	{name: "W3_until_is_conservative", keep: untilIsConservative},
	{name: "W3_late_extend_revives_nothing", keep: lateExtendRevivesNothing},
	{name: "W3_late_renewal_revives_nothing", keep: lateRenewalRevivesNothing},
	{name: "A2_late_acquisition_is_taken_back", keep: lateAcquisitionIsTakenBack},
	{name: "W3_grant_at_the_last_moment", keep: grantAtTheLastMoment},
	{name: "W3_cause_without_a_failed_request", keep: causeWithoutAFailedRequest, majority: sameTime},
}

// Whatever keeps the renewals from succeeding, Context ends before the key can expire, and not much earlier.
func contextEndsBeforeTheKey(t *testing.T, ch chapter) {
	for name, happen := range map[string]func(s *scene){
		"Redis hangs":   func(s *scene) { s.node.Hang() },
		"Redis refuses": func(s *scene) { s.node.Refuse("LOADING Redis is loading the dataset in memory") },
		"Redis is down": func(s *scene) { s.node.Crash() },
		"A is cut off":  func(s *scene) { s.a.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			ch.stage(t, func(s *scene) {
				s.At(12 * time.Second) // the renewal at 10s has succeeded, so the key ends at 40s
				happen(s)
				s.At(39500 * time.Millisecond)
				require.NoError(t, s.k.Context().Err(), "it is still sure of its lease")
				s.At(39999 * time.Millisecond)
				ch.lost(t, s.k, nil)
				require.NotContains(t, context.Cause(s.k.Context()).Error(), "nil", "it says what kept it")
				require.NotEmpty(t, s.node.Value(at), "the key is still there")
			})
		})
	}
}

// Until is never later than the key's real end, however slow a reply is: the lease counts from before the request.
func untilIsConservative(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		require.Equal(t, lease-lease/100-2*time.Millisecond, time.Until(s.k.Until()))
		late := s.a.DeliverLate(wire.Extends)
		s.At(10*time.Second + 900*time.Millisecond) // a request may take a second
		require.True(t, late.Caught())
		late.Deliver() // the server starts the new lease now
		require.LessOrEqual(t, time.Until(s.k.Until()), s.node.TTL(at)-900*time.Millisecond)

		late = s.a.DeliverLate(wire.Acquires)
		var k Lock
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

// An Extend whose answer comes after the deadline moves nothing either, and says so.
func lateExtendRevivesNothing(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		s.At(12 * time.Second)
		s.node.Refuse("LOADING Redis is loading the dataset in memory") // no renewal succeeds
		s.At(39200 * time.Millisecond)
		s.node.Accept()
		late := s.a.DeliverLate(wire.Extends)
		var err error
		s.a.Do(func() { err = s.k.Extend(ctx, lease) })
		s.At(39800 * time.Millisecond) // the deadline was 39.698s, the key ends at 40s
		ch.lost(t, s.k, nil)
		until := s.k.Until()
		late.Deliver()
		require.Equal(t, lease, s.node.TTL(at), "Redis has done it")
		require.ErrorIs(t, err, ch.ErrNotHeld)
		require.Equal(t, until, s.k.Until())
	})
}

// A renewal that succeeds after the deadline does not revive the lock: the holder has been told.
func lateRenewalRevivesNothing(t *testing.T, ch chapter) {
	h := ch.stage(t, func(s *scene) {
		s.At(25 * time.Second)
		s.node.Hang()
		s.At(49800 * time.Millisecond) // the deadline was 49.698s, the key ends at 50s
		ch.lost(t, s.k, nil)
		s.node.Resume() // now the renewals that wait there are executed
		require.NotEmpty(t, s.node.Value(at))
		ch.lost(t, s.k, nil)
		require.ErrorIs(t, s.k.Extend(ctx, lease), ch.ErrNotHeld)
		s.At(5 * time.Minute)
		require.Empty(t, s.node.Value(at), "nobody renews it any more")
	})
	require.NotEmpty(t, times(h, "extend", "1"))
}

// An acquisition that took too long is taken back once its request is no longer on its way, not before.
func lateAcquisitionIsTakenBack(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
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

// The cause of a loss says what is known, also where no request has failed: one is on its way, or the process stood still.
func causeWithoutAFailedRequest(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		s.At(time.Second)
		s.a.DeliverLate(wire.Extends)
		require.Error(t, s.k.Extend(ctx, 600*time.Millisecond)) // from now on the lease counts as short as this
		require.NoError(t, s.k.Extend(ctx, time.Hour))          // and a request may take a second again
		s.node.Hang()
		s.At(2 * time.Second)
		ch.lost(t, s.k, nil)
		require.ErrorContains(t, context.Cause(s.k.Context()), "stood still")
	})
}
