package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	redlock "example.com/redislock/06-redlock"
	"example.com/redislock/internal/sim"
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

// Lock waits for nodes that are too slow to answer, as it waits for a holder: TryLock would have given up. It makes no difference
// whether go-redis gives up too.
func TestLockWaitsForSlowNodes(t *testing.T) {
	for _, enabled := range []bool{false, true} {
		stage(t, 3, func(s *scene) {
			var nodes []redis.UniversalClient
			for _, n := range s.nodes {
				nodes = append(nodes, s.Client("A", n, func(o *redis.Options) { o.ContextTimeoutEnabled = enabled }).Redis())
			}
			p, err := redlock.New(nodes)
			require.NoError(t, err)
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
			err, done = call()
			require.True(t, done)
			require.NoError(t, err)
			s.nodes[1].Resume()
			s.At(8 * time.Second)
			require.NoError(t, k.Unlock(ctx))
			settle()
			s.free(t)
		})
	}
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

// "Taken" is said only if those who have not answered could not have made a majority. Otherwise nobody knows.
func TestTakenOrUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		hang  int
		taken bool
	}{"the others may have said yes": {2, false}, "one yes is there, and one more would not do": {1, true}} {
		t.Run(name, func(t *testing.T) {
			stage(t, 3, func(s *scene) {
				s.nodes[0].Set(at, "a stranger's", lease)
				for _, n := range s.nodes[1:][:c.hang] {
					n.Hang()
				}
				_, err := s.process(t, "A").TryLock(ctx, "order:1", lease)
				require.Error(t, err)
				require.Equal(t, c.taken, errors.Is(err, redlock.ErrNotAcquired), err)
			})
		})
	}
}

// A waiter needs two of three nodes, so it comes when the second one is free, and not for the first.
func TestWaiterDoesNotComeForAMinority(t *testing.T) {
	for range 30 { // the pauses are random
		h := stage(t, 3, func(s *scene) {
			for i, n := range s.nodes {
				n.Set(at, "a stranger's", time.Duration(10*i+10)*time.Second)
			}
			k, err := s.process(t, "A", redlock.WithBackoff(time.Minute, time.Minute)).Lock(ctx, "order:1", lease)
			require.NoError(t, err)
			require.NoError(t, k.Unlock(ctx))
		})
		require.GreaterOrEqual(t, asked(h, "N1")[1], 20*time.Second)
	}
}

// Of two nodes nobody knows how long they will be taken. Then the first one's time says nothing, and a waiter pauses as it was told.
func TestWaiterWhoKnowsTooLittlePauses(t *testing.T) {
	for range 10 { // the pauses are random
		h := stage(t, 3, func(s *scene) {
			s.nodes[0].Set(at, "a stranger's", 10*time.Second)
			s.nodes[1].Set(at, "a stranger's", 0)
			s.nodes[2].Set(at, "a stranger's", 0)
			limit, cancel := context.WithTimeout(ctx, 2*time.Minute)
			defer cancel()
			_, err := s.process(t, "A", redlock.WithBackoff(time.Minute, time.Minute)).Lock(limit, "order:1", lease)
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
		})
		require.GreaterOrEqual(t, asked(h, "N1")[1], 30*time.Second)
	}
}

// asked lists when a node was asked for the lock.
func asked(h *sim.History, node string) (all []time.Duration) {
	for _, e := range h.Events {
		if e.Kind == sim.Command && e.Node == node && e.Text == "acquire" {
			all = append(all, e.At)
		}
	}
	return all
}

// A lease that has ended does not begin again, although renewals that were on their way succeed at a majority.
func TestEndedLeaseStaysEnded(t *testing.T) {
	stage(t, 3, func(s *scene) {
		k := s.lock(t, s.process(t, "A"))
		s.At(5 * time.Second)
		for _, n := range s.nodes {
			n.Hang()
		}
		s.At(end(0, lease) + 10*time.Millisecond) // the keys are still there
		require.ErrorIs(t, context.Cause(k.Context()), redlock.ErrLockLost)
		for _, n := range s.nodes {
			n.Resume()
		}
		settle()
		require.Greater(t, s.nodes[0].TTL(at), time.Second, "no renewal was on its way")
		require.LessOrEqual(t, s.until(k), end(0, lease))
	})
}

// Extend finds that a majority has lost the key. That is a loss, and not an error that may be tried again.
func TestExtendOfALostMajority(t *testing.T) {
	stage(t, 3, func(s *scene) {
		k := s.lock(t, s.process(t, "A"))
		s.At(time.Second)
		s.nodes[0].Delete(at)
		s.nodes[1].Delete(at)
		require.ErrorIs(t, k.Extend(ctx, lease), redlock.ErrNotHeld)
		require.ErrorIs(t, context.Cause(k.Context()), redlock.ErrExpired)
	})
}

// One node says in time that the key is gone, and the second one late. The holder is told then, and told why.
func TestLateNewsOfALoss(t *testing.T) {
	stage(t, 3, func(s *scene) {
		k := s.lock(t, s.process(t, "A"))
		s.At(5 * time.Second)
		s.nodes[0].Delete(at)
		s.nodes[1].Delete(at)
		s.nodes[1].Hang()
		s.At(10*time.Second + 100*time.Millisecond)
		require.NoError(t, k.Context().Err())
		s.nodes[1].Resume()
		settle()
		require.ErrorIs(t, context.Cause(k.Context()), redlock.ErrExpired)
	})
}

// A node that answers a renewal after it was decided has been renewed, and its vote counts for as long as the others'. What is
// sent again because a connection broke is sent after the decision too.
func TestLateVoteCounts(t *testing.T) {
	for name, late := range map[string]func(s *scene, link *sim.Client){
		"late": func(s *scene, _ *sim.Client) {
			s.nodes[2].Hang()
			s.At(10*time.Second + 20*time.Millisecond) // N1 and N2 have decided
			s.nodes[2].Resume()
		},
		"sent again": func(_ *scene, link *sim.Client) { link.LoseRequest(wire.Extends, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			stage(t, 3, func(s *scene) {
				p := s.process(t, "A")
				k := s.lock(t, p)
				s.At(9 * time.Second)
				late(s, p.links[2])
				s.At(15 * time.Second)
				s.nodes[0].Delete(at)
				s.At(19 * time.Second)
				s.nodes[1].Hang()
				s.nodes[2].Hang()
				s.At(21 * time.Second)
				require.InDelta(t, end(10*time.Second, lease), s.until(k), float64(instant))
			})
		})
	}
}

// A shorter lease that may still arrive has to be renewed as often as the shorter one.
func TestRenewalsFollowTheLeaseThatCounts(t *testing.T) {
	stage(t, 3, func(s *scene) {
		p := s.process(t, "A")
		k := s.lock(t, p)
		s.At(time.Second)
		p.links[0].DeliverLate(wire.Extends)
		p.links[1].DeliverLate(wire.Extends)
		require.Error(t, k.Extend(ctx, 6*time.Second))
		s.At(6500 * time.Millisecond) // go-redis has given up
		require.NoError(t, k.Extend(ctx, lease))
		s.At(time.Minute)
		require.NoError(t, k.Context().Err())
	})
}

// The first copy of a request may still be on its way when the second is refused. So such a node is asked to take it back too.
func TestResentAttemptIsTakenBack(t *testing.T) {
	h := stage(t, 3, func(s *scene) {
		p := s.process(t, "A")
		s.nodes[0].Set(at, "a stranger's", lease)
		s.nodes[1].Set(at, "a stranger's", lease)
		p.links[0].LoseRequest(wire.Acquires, 1)
		_, err := p.TryLock(ctx, "order:1", lease)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		s.At(time.Second)
	})
	var released []string
	for _, e := range h.Events {
		if e.Kind == sim.Command && e.Text == "release" {
			released = append(released, e.Node)
		}
	}
	require.ElementsMatch(t, []string{"N1", "N3"}, released)
}

// The time for a request is a twentieth of a short ttl, but no less than 5 ms: networks are no faster for it.
func TestShortLeaseHasTimeForARoundTrip(t *testing.T) {
	stage(t, 3, func(s *scene) {
		p := s.process(t, "A")
		for _, n := range s.nodes {
			n.Hang()
		}
		call := background(func() error {
			k, err := p.TryLock(ctx, "order:1", 60*time.Millisecond)
			if err == nil {
				err = k.Unlock(ctx)
			}
			return err
		})
		s.At(4 * time.Millisecond)
		for _, n := range s.nodes {
			n.Resume()
		}
		err, done := call()
		require.True(t, done)
		require.NoError(t, err)
	})
}

// A renewal, its timeout and the margin have to fit into a ttl.
func TestRenewalHasToFit(t *testing.T) {
	for timeout, fits := range map[time.Duration]bool{9 * time.Second: true, 9900 * time.Millisecond: false, 11 * time.Second: false} {
		stage(t, 3, func(s *scene) {
			p := s.process(t, "A", redlock.WithRenewEvery(20*time.Second), redlock.WithRequestTimeout(timeout))
			k, err := p.TryLock(ctx, "order:1", lease)
			require.Equal(t, fits, err == nil, err)
			_ = k.Unlock(ctx)
		})
	}
}
