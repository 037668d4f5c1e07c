package renewal

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// renewing is what a renewal does, and what it makes of an answer.
var renewing = []promise{
	{name: "W2_short_cut_costs_nothing", keep: shortCutCostsNothing},
	{name: "W2_refused_renewal_is_no_loss", keep: refusedRenewalIsNoLoss},
	{name: "W2_failed_extend_puts_nothing_off", keep: failedExtendPutsNothingOff},
	{name: "W4_W5_loss_is_told_within_one_interval", keep: lossIsToldWithinOneInterval},
	{name: "W6_extend_to_nothing", keep: extendToNothing},
	{name: "W7_acquire_context_does_not_bound_the_lease", keep: acquireContextDoesNotBoundTheLease},
	{name: "W7_max_hold", keep: maxHold},
	{name: "ttl_is_per_acquisition", keep: ttlIsPerAcquisition},
	{name: "impossible_configuration", keep: impossibleConfiguration},
}

// A link that is cut for less than the lease costs nothing, and the renewal goes on.
func shortCutCostsNothing(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		s.At(15 * time.Second)
		s.a.Cut()
		s.At(35 * time.Second)
		s.a.Heal()
		s.At(60 * time.Second)
		require.NoError(t, s.k.Context().Err())
		require.NoError(t, s.k.Unlock(ctx))
	})
}

// An error is no loss. Redis may answer with one for as long as the lease lasts.
func refusedRenewalIsNoLoss(t *testing.T, ch chapter) {
	for _, answer := range []string{"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.", "ERR anything"} {
		t.Run(answer[:3], func(t *testing.T) {
			ch.stage(t, func(s *scene) {
				s.At(9 * time.Second)
				s.node.Refuse(answer)
				s.At(25 * time.Second)
				require.NoError(t, s.k.Context().Err())
				s.node.Accept()
				s.At(60 * time.Second)
				require.NoError(t, s.k.Context().Err())
			})
		})
	}
}

// An Extend that fails does not put off the renewal that is due.
func failedExtendPutsNothingOff(t *testing.T, ch chapter) {
	h := ch.stage(t, func(s *scene) {
		s.At(9900 * time.Millisecond)
		s.node.Refuse("LOADING Redis is loading the dataset in memory")
		require.Error(t, s.k.Extend(ctx, time.Hour))
		s.node.Accept()
		s.At(15 * time.Second)
	})
	require.Equal(t, []time.Duration{10 * time.Second}, times(h, "extend", "1"))
}

// A key that is gone or another's is lost at the next renewal, for good, and the cause says which.
func lossIsToldWithinOneInterval(t *testing.T, ch chapter) {
	for name, c := range map[string]struct {
		why    error
		happen func(n *sim.Node)
	}{
		"deleted": {ch.ErrExpired, func(n *sim.Node) { n.Delete(at) }},
		"stolen":  {ch.ErrStolen, func(n *sim.Node) { n.Set(at, "another's", time.Hour) }},
		"emptied": {ch.ErrExpired, func(n *sim.Node) { n.Restart(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			h := ch.stage(t, func(s *scene) {
				s.At(11 * time.Second)
				c.happen(s.node)
				s.At(20*time.Second + time.Millisecond)
				ch.lost(t, s.k, c.why)
				require.ErrorIs(t, s.k.Extend(ctx, lease), ch.ErrNotHeld)
				require.ErrorIs(t, s.k.Unlock(ctx), c.why)
				if name == "stolen" {
					require.Equal(t, "another's", s.node.Value(at))
				}
			})
			require.Len(t, times(h, "extend", "1"), 1, "it is not renewed any more")
		})
	}
}

// An Extend to nothing is refused before it is sent.
func extendToNothing(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		for _, ttl := range []time.Duration{0, -time.Second, time.Microsecond} {
			require.Error(t, s.k.Extend(ctx, ttl))
		}
		require.Contains(t, s.node.Value(at), s.k.Token())
		require.Equal(t, lease, s.node.TTL(at))
	})
}

// The ctx that bounded the waiting does not bound the lease.
func acquireContextDoesNotBoundTheLease(t *testing.T, ch chapter) {
	type name struct{}
	ch.stage(t, func(s *scene) {
		acquire, cancel := context.WithTimeout(context.WithValue(ctx, name{}, "A"), time.Second)
		k, err := s.locker.Lock(acquire, "order:2", lease)
		require.NoError(t, err)
		defer func() { require.NoError(t, k.Unlock(ctx)) }()
		cancel()
		s.At(2 * time.Minute)
		require.NoError(t, k.Context().Err())
		require.Equal(t, "A", k.Context().Value(name{}))
	})
}

// A holder that hangs holds for as long as it may, and its key ends with it.
func maxHold(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		s.At(69 * time.Second)
		require.NoError(t, s.k.Context().Err())
		s.At(70*time.Second + time.Millisecond)
		ch.lost(t, s.k, nil)
		require.Contains(t, context.Cause(s.k.Context()).Error(), "longest time allowed, 1m10s")
		require.Empty(t, s.node.Value(at))

		late, start := s.a.DeliverLate(wire.Acquires), s.Now()
		var k Lock
		s.a.Do(func() { k, _ = s.locker.TryLock(ctx, "order:2", lease) })
		s.At(start + 900*time.Millisecond)
		late.Deliver()
		s.At(start + 70*time.Second + time.Millisecond)
		ch.lost(t, k, nil)
		require.ErrorIs(t, k.Unlock(ctx), ch.ErrExpired, "it counts from the request, not from the answer")
	}, Options{MaxHold: 70 * time.Second})
}

// Each acquisition has a ttl of its own: a lock for an hour leaves nothing to a lock for ten seconds.
func ttlIsPerAcquisition(t *testing.T, ch chapter) {
	ch.stage(t, func(s *scene) {
		long, err := s.locker.TryLock(ctx, "x", time.Hour)
		require.NoError(t, err)
		require.NoError(t, long.Unlock(ctx))
		short, err := s.locker.TryLock(ctx, "x", 10*time.Second)
		require.NoError(t, err)
		require.LessOrEqual(t, s.node.TTL("lock:x"), 10*time.Second)
		require.LessOrEqual(t, time.Until(short.Until()), 10*time.Second)
		require.NoError(t, short.Unlock(ctx))
	})
}

// What can't work is refused before anything is sent, and the error says the rule.
func impossibleConfiguration(t *testing.T, ch chapter) {
	h := sim.Run(t, func(w *sim.World) {
		a := w.Client("A", w.Node("Redis"))
		for name, opt := range map[string]Options{
			"renews too late":      Options{RenewEvery: lease},
			"waits too long":       Options{RequestTimeout: 25 * time.Second},
			"never renews":         Options{RenewEvery: -time.Second},
			"renews in 292 years":  Options{RenewEvery: math.MaxInt64}, // the sum overflows
			"waits 292 years":      Options{RequestTimeout: math.MaxInt64},
			"may not hold so long": Options{MaxHold: time.Second},
			"may never hold":       Options{MaxHold: -time.Second},
		} {
			_, err := ch.New(a.Redis(), opt).TryLock(ctx, "order:1", lease)
			require.ErrorContains(t, err, "a ttl of 30s", name)
		}
		_, err := ch.New(a.Redis(), Options{}).TryLock(ctx, "order:1", time.Millisecond)
		require.ErrorContains(t, err, "too short to renew")
	})
	require.Empty(t, h.Events)
}
