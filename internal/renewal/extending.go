package renewal

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/wire"
)

// extending is what Extend does to a lease that renews itself.
var extending = []promise{
	{name: "extend_longer", keep: extendLonger},
	{name: "extend_shorter", keep: extendShorter},
	{name: "W2_failed_lengthening_changes_nothing", keep: failedLengtheningChangesNothing},
	{name: "W2_lengthening_after_an_unknown_outcome_is_kept", keep: lengtheningAfterAnUnknownOutcomeIsKept, majority: oneByOne},
	{name: "unknown_shortening_shortens_the_deadline", keep: unknownShorteningShortensTheDeadline},
	{name: "late_shortening_is_expected", keep: lateShorteningIsExpected, majority: oneByOne},
	{name: "late_shortening_is_not_forgotten", keep: lateShorteningIsNotForgotten, majority: oneByOne},
	{name: "refused_shortening_costs_nothing", keep: refusedShorteningCostsNothing},
	{name: "one_request_at_a_time", keep: oneRequestAtATime},
	{name: "A3_extend_that_waits_heeds_its_context", keep: extendThatWaitsHeedsItsContext},
}

// Extend makes a lease longer, and later renewals keep it so.
func extendLonger(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		s.At(time.Second)
		require.NoError(t, s.k.Extend(ctx, time.Hour))
		require.Equal(t, time.Hour, s.node.TTL(at))
		require.Greater(t, time.Until(s.k.Until()), 59*time.Minute)
		s.At(30 * time.Minute)
		require.Greater(t, time.Until(s.k.Until()), 49*time.Minute)
	})
}

// Extend makes a lease shorter, and the renewals come as often as that needs.
func extendShorter(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		s.At(time.Second)
		require.NoError(t, s.k.Extend(ctx, 3*time.Second))
		require.Equal(t, 3*time.Second, s.node.TTL(at))
		s.At(time.Minute)
		require.NoError(t, s.k.Context().Err())
		require.LessOrEqual(t, s.node.TTL(at), 3*time.Second)
	})
}

// An Extend to more that fails changes nothing. The renewals go on as often as the lease that is left needs.
func failedLengtheningChangesNothing(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		s.At(time.Second)
		s.node.Refuse("LOADING Redis is loading the dataset in memory")
		require.Error(t, s.k.Extend(ctx, time.Hour))
		s.node.Accept()
		s.At(time.Minute)
		require.NoError(t, s.k.Context().Err())
		require.LessOrEqual(t, s.node.TTL(at), lease)
	})
}

// After a request of unknown outcome the lease counts as short, so the renewals must come as often as a short one needs.
func lengtheningAfterAnUnknownOutcomeIsKept(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
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
func unknownShorteningShortensTheDeadline(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		s.At(time.Second)
		s.node.Hang()
		require.Error(t, s.k.Extend(ctx, 5*time.Second))
		require.LessOrEqual(t, s.k.Until(), time.Now().Add(5*time.Second))
		s.At(6 * time.Second)
		ch.lost(t, s.k, nil)
	})
}

// A short extension may arrive after a longer one that succeeded. Until has to expect it.
func lateShorteningIsExpected(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
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
func lateShorteningIsNotForgotten(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
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
func refusedShorteningCostsNothing(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
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
func oneRequestAtATime(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
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

// An Extend that waits for its turn heeds its ctx, however long the request before it takes.
func extendThatWaitsHeedsItsContext(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
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
