package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	redlock "example.com/redislock/06-redlock"
	"example.com/redislock/internal/wire"
)

// A vote that a renewal finds lost counts no more, at once: the majority is what the others are sure of. Here that is one of
// three, because the third has never answered.
func TestLostVoteStopsCounting(t *testing.T) {
	for name, value := range map[string]string{"gone": "", "stolen": "a thief's"} {
		t.Run(name, func(t *testing.T) {
			stage(t, 3, func(s *scene) {
				s.nodes[2].Hang()
				k := s.lock(t, s.process(t, "A"))
				s.At(5 * time.Second)
				s.nodes[0].Delete(at)
				if value != "" {
					s.nodes[0].Set(at, value, 10*lease)
				}
				s.At(9 * time.Second)
				require.NoError(t, k.Context().Err())
				s.At(10*time.Second + instant)
				require.ErrorIs(t, context.Cause(k.Context()), redlock.ErrLockLost)
				require.LessOrEqual(t, s.until(k), s.Now())
			})
		})
	}
}

// A shorter lease that is still on its way to a majority may arrive after a longer one. So the lease counts as the shorter one.
func TestShorterLeaseOnItsWayStillCounts(t *testing.T) {
	stage(t, 3, func(s *scene) {
		p := s.process(t, "A")
		k := s.lock(t, p)
		s.At(time.Second)
		late := p.links[0].DeliverLate(wire.Extends)
		p.links[1].DeliverLate(wire.Extends)
		require.Error(t, k.Extend(ctx, 20*time.Second))
		s.At(9 * time.Second) // go-redis has given up
		require.NoError(t, k.Extend(ctx, lease))
		require.Equal(t, end(9*time.Second, 20*time.Second), s.until(k))
		late.Deliver()
		require.Greater(t, s.Now()+s.nodes[0].TTL(at), s.until(k))
	})
}

// When nobody knows what became of an Extend, renewals ask for the shorter of both leases.
func TestRenewalsAskForTheShorterLease(t *testing.T) {
	for name, wanted := range map[string]time.Duration{"shorter": 15 * time.Second, "longer": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			stage(t, 3, func(s *scene) {
				k := s.lock(t, s.process(t, "A"))
				s.At(time.Second)
				for _, n := range s.nodes {
					n.Refuse("LOADING Redis is loading the dataset in memory")
				}
				require.Error(t, k.Extend(ctx, wanted))
				for _, n := range s.nodes {
					n.Accept()
				}
				s.At(time.Minute)
				require.NoError(t, k.Context().Err())
				for _, n := range s.nodes {
					require.LessOrEqual(t, n.TTL(at), min(wanted, lease))
				}
			})
		})
	}
}

// A majority has lost the key: what most of those say is what Unlock says.
func TestUnlockSaysWhatMostOfTheLostSay(t *testing.T) {
	for stolen, want := range []error{redlock.ErrExpired, redlock.ErrExpired, redlock.ErrStolen, redlock.ErrStolen} {
		stage(t, 5, func(s *scene) {
			k := s.lock(t, s.process(t, "A"))
			s.At(time.Second)
			for i, n := range s.nodes[:3] {
				n.Delete(at)
				if i < stolen {
					n.Set(at, "a thief's", lease)
				}
			}
			require.ErrorIs(t, k.Unlock(ctx), want, "%d of 3 are stolen", stolen)
		})
	}
}

// A waiter is back as soon as a majority can be free: here when one more node is, since the first one always says yes.
func TestWaiterComesWhenAMajorityIsFree(t *testing.T) {
	for range 10 { // the pauses are random
		stage(t, 3, func(s *scene) {
			s.nodes[1].Set(at, "a stranger's", 10*time.Second)
			s.nodes[2].Set(at, "a stranger's", 25*time.Second)
			k, err := s.process(t, "A", redlock.WithBackoff(time.Second, time.Minute)).Lock(ctx, "order:1", lease)
			require.NoError(t, err)
			require.GreaterOrEqual(t, s.Now(), 10*time.Second)
			require.LessOrEqual(t, s.Now(), 11*time.Second+10*time.Millisecond)
			require.NoError(t, k.Unlock(ctx))
		})
	}
}

// The key gets whole milliseconds, and the lease counts no more.
func TestLeaseCountsWholeMilliseconds(t *testing.T) {
	stage(t, 3, func(s *scene) {
		k, err := s.process(t, "A").TryLock(ctx, "order:1", lease+999*time.Microsecond)
		require.NoError(t, err)
		require.Equal(t, end(0, lease), s.until(k))
		require.NoError(t, k.Unlock(ctx))
	})
}

// What the caller does to its slice of nodes later is nothing to the Locker.
func TestNodesAreTheLockersOwn(t *testing.T) {
	stage(t, 3, func(s *scene) {
		var nodes []redis.UniversalClient
		for i, n := range s.nodes {
			nodes = append(nodes, s.Client("A"+string(rune('1'+i)), n).Redis())
		}
		locker, err := redlock.New(nodes)
		require.NoError(t, err)
		clear(nodes)
		k, err := locker.TryLock(ctx, "order:1", lease)
		require.NoError(t, err)
		require.NoError(t, k.Unlock(ctx))
	})
}

// A majority that hangs is given up after the request timeout, although the caller would wait for ever, and the cause of a
// lease that ends so says what was missing.
func TestMajorityThatHangsIsGivenUp(t *testing.T) {
	stage(t, 3, func(s *scene) {
		p := s.process(t, "A")
		k := s.lock(t, p)
		s.At(9 * time.Second)
		s.nodes[1].Hang()
		s.nodes[2].Hang()
		_, err := p.TryLock(ctx, "order:2", lease)
		require.ErrorContains(t, err, "node 3: no answer within 50ms")
		require.Less(t, s.Now(), 9*time.Second+50*time.Millisecond+instant)
		<-k.Context().Done()
		require.ErrorContains(t, context.Cause(k.Context()), "node 3: ")
	})
}

// The clean-up of a failed attempt is waited for until the request timeout, or until the caller's ctx ends, and no longer.
func TestSlowCleanUpIsNotWaitedForLong(t *testing.T) {
	for patience, took := range map[time.Duration]time.Duration{time.Hour: 50 * time.Millisecond, 20 * time.Millisecond: 20 * time.Millisecond} {
		stage(t, 3, func(s *scene) {
			p := s.process(t, "A")
			s.nodes[1].Refuse("LOADING Redis is loading the dataset in memory")
			s.nodes[2].Refuse("LOADING Redis is loading the dataset in memory")
			slow := p.links[0].DeliverLate(wire.Releases)
			limit, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			_, err := p.TryLock(limit, "order:1", lease)
			require.ErrorContains(t, err, "LOADING")
			require.InDelta(t, took, s.Now(), float64(instant))
			slow.Deliver()
			require.Empty(t, s.nodes[0].Value(at))
		})
	}
}

// Lock waits for nodes that are too slow to answer, as it waits for a holder: TryLock would have given up.
func TestLockWaitsForSlowNodes(t *testing.T) {
	stage(t, 3, func(s *scene) {
		p := s.process(t, "A")
		s.nodes[0].Hang()
		s.nodes[1].Hang()
		var k *redlock.Lock
		call := background(func() (err error) {
			k, err = p.Lock(ctx, "order:1", lease)
			return err
		})
		s.At(5 * time.Second)
		_, done := call()
		require.False(t, done)
		s.nodes[0].Resume()
		s.At(7 * time.Second)
		err, done := call()
		require.True(t, done)
		require.NoError(t, err)
		require.NoError(t, k.Unlock(ctx))
		s.nodes[1].Resume()
		s.At(10 * time.Second)
		s.free(t)
	})
}

// Of four nodes one may lose the key. Two that have lost it leave no majority, and the holder is told.
func TestHalfIsNoMajority(t *testing.T) {
	for lost, told := range []bool{false, false, true} {
		stage(t, 4, func(s *scene) {
			k := s.lock(t, s.process(t, "A"))
			s.At(5 * time.Second)
			for _, n := range s.nodes[:lost] {
				n.Delete(at)
			}
			s.At(10*time.Second + time.Millisecond)
			require.Equal(t, told, k.Context().Err() != nil, "%d lost", lost)
			if !told {
				require.NoError(t, k.Unlock(ctx))
				return
			}
			require.ErrorIs(t, context.Cause(k.Context()), redlock.ErrExpired)
			_ = k.Unlock(ctx)
		})
	}
}
