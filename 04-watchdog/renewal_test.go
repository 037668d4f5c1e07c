package watchdog_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	watchdog "example.com/redislock/04-watchdog"
	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

var ctx = context.Background()

const (
	lease = 30 * time.Second
	at    = "lock:order:1"
)

// scene is one Redis, and A, who holds order:1 there.
type scene struct {
	*sim.World
	node   *sim.Node
	a      *sim.Client
	locker *watchdog.Locker
	k      *watchdog.Lock
}

// stage lets A take the lock at 0s, and f do the rest. Whoever still holds it in the end lets go.
func stage(t *testing.T, f func(s *scene), opts ...watchdog.Option) *sim.History {
	t.Helper()
	return sim.Run(t, func(w *sim.World) {
		s := &scene{World: w, node: w.Node("Redis")}
		s.a = w.Client("A", s.node)
		s.locker = watchdog.New(s.a.Redis(), opts...)
		var err error
		s.k, err = s.locker.TryLock(ctx, "order:1", lease)
		require.NoError(t, err)
		w.AtEnd(func() { _ = s.k.Unlock(ctx) })
		f(s)
	})
}

// times lists when a command was executed, and how it was answered.
func times(h *sim.History, name, reply string) (all []time.Duration) {
	for _, e := range h.Events {
		if e.Kind == sim.Command && e.Text == name && e.Reply == reply {
			all = append(all, e.At)
		}
	}
	return all
}

func lost(t *testing.T, k *watchdog.Lock, why error) {
	t.Helper()
	require.Error(t, k.Context().Err())
	require.ErrorIs(t, context.Cause(k.Context()), watchdog.ErrLockLost)
	if why != nil {
		require.ErrorIs(t, context.Cause(k.Context()), why)
	}
}

// W1: five hundred locks, each renewed every millisecond. None leaves a key or a goroutine, or says "lost".
func TestRenewalEndsBeforeTheRelease(t *testing.T) {
	h := stage(t, func(s *scene) {
		require.NoError(t, s.k.Unlock(ctx))
		for range 500 {
			k, err := s.locker.TryLock(ctx, "order:1", lease)
			require.NoError(t, err)
			time.Sleep(3500 * time.Microsecond) // virtual
			require.NoError(t, k.Unlock(ctx))
			require.Equal(t, context.Canceled, context.Cause(k.Context()))
			require.Empty(t, s.node.Value(at))
		}
		time.Sleep(time.Minute) // virtual: nothing may renew now
	}, watchdog.WithRenewEvery(time.Millisecond))
	require.Len(t, times(h, "extend", "1"), 1500)
	require.Empty(t, times(h, "extend", "0"))
}

// W1: the renewal ends before the release is sent, and not with its answer: nothing renews while an Unlock takes its time.
func TestNothingRenewsDuringAnUnlock(t *testing.T) {
	h := stage(t, func(s *scene) {
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

// slow is a ctx that keeps whoever asks for its deadline waiting. send does that right before it sends.
type slow struct {
	context.Context
	goOn chan struct{}
}

func (s slow) Deadline() (time.Time, bool) {
	<-s.goOn
	return s.Context.Deadline()
}

// W1: an Unlock waits for a renewer that has made up its mind and has not sent anything yet.
func TestUnlockWaitsForTheRenewer(t *testing.T) {
	h := stage(t, func(s *scene) {
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

// W2: a link that is cut for less than the lease costs nothing, and the renewal goes on.
func TestShortCutCostsNothing(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(15 * time.Second)
		s.a.Cut()
		s.At(35 * time.Second)
		s.a.Heal()
		s.At(60 * time.Second)
		require.NoError(t, s.k.Context().Err())
		require.NoError(t, s.k.Unlock(ctx))
	})
}

// W2: an error is no loss. Redis may answer with one for as long as the lease lasts.
func TestRefusedRenewalIsNoLoss(t *testing.T) {
	for _, answer := range []string{"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.", "ERR anything"} {
		t.Run(answer[:3], func(t *testing.T) {
			stage(t, func(s *scene) {
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

// W2: an Extend that fails does not put off the renewal that is due.
func TestFailedExtendPutsNothingOff(t *testing.T) {
	h := stage(t, func(s *scene) {
		s.At(9900 * time.Millisecond)
		s.node.Refuse("LOADING Redis is loading the dataset in memory")
		require.Error(t, s.k.Extend(ctx, time.Hour))
		s.node.Accept()
		s.At(15 * time.Second)
	})
	require.Equal(t, []time.Duration{10 * time.Second}, times(h, "extend", "1"))
}

// W4, W5: a key that is gone or another's is lost at the next renewal, for good, and the cause says which.
func TestLossIsToldWithinOneInterval(t *testing.T) {
	for name, c := range map[string]struct {
		why    error
		happen func(n *sim.Node)
	}{
		"deleted": {watchdog.ErrExpired, func(n *sim.Node) { n.Delete(at) }},
		"stolen":  {watchdog.ErrStolen, func(n *sim.Node) { n.Set(at, "another's", time.Hour) }},
		"emptied": {watchdog.ErrExpired, func(n *sim.Node) { n.Restart(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			h := stage(t, func(s *scene) {
				s.At(11 * time.Second)
				c.happen(s.node)
				s.At(20*time.Second + time.Millisecond)
				lost(t, s.k, c.why)
				require.ErrorIs(t, s.k.Extend(ctx, lease), watchdog.ErrNotHeld)
				require.ErrorIs(t, s.k.Unlock(ctx), c.why)
				if name == "stolen" {
					require.Equal(t, "another's", s.node.Value(at))
				}
			})
			require.Len(t, times(h, "extend", "1"), 1, "it is not renewed any more")
		})
	}
}

// W6: an Extend to nothing is refused before it is sent.
func TestExtendToNothing(t *testing.T) {
	stage(t, func(s *scene) {
		for _, ttl := range []time.Duration{0, -time.Second, time.Microsecond} {
			require.Error(t, s.k.Extend(ctx, ttl))
		}
		require.Equal(t, s.k.Token(), s.node.Value(at))
		require.Equal(t, lease, s.node.TTL(at))
	})
}

// W7: the ctx that bounded the waiting does not bound the lease.
func TestAcquireContextDoesNotBoundTheLease(t *testing.T) {
	type name struct{}
	stage(t, func(s *scene) {
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

// W7: a holder that hangs holds for as long as it may, and its key ends with it.
func TestMaxHold(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(69 * time.Second)
		require.NoError(t, s.k.Context().Err())
		s.At(70*time.Second + time.Millisecond)
		lost(t, s.k, nil)
		require.Contains(t, context.Cause(s.k.Context()).Error(), "longest time allowed, 1m10s")
		require.Empty(t, s.node.Value(at))

		late, start := s.a.DeliverLate(wire.Acquires), s.Now()
		var k *watchdog.Lock
		s.a.Do(func() { k, _ = s.locker.TryLock(ctx, "order:2", lease) })
		s.At(start + 900*time.Millisecond)
		late.Deliver()
		s.At(start + 70*time.Second + time.Millisecond)
		lost(t, k, nil)
		require.ErrorIs(t, k.Unlock(ctx), watchdog.ErrExpired, "it counts from the request, not from the answer")
	}, watchdog.WithMaxHold(70*time.Second))
}

// Each acquisition has a ttl of its own: a lock for an hour leaves nothing to a lock for a second.
func TestTTLIsPerAcquisition(t *testing.T) {
	stage(t, func(s *scene) {
		long, err := s.locker.TryLock(ctx, "x", time.Hour)
		require.NoError(t, err)
		require.NoError(t, long.Unlock(ctx))
		short, err := s.locker.TryLock(ctx, "x", time.Second)
		require.NoError(t, err)
		require.LessOrEqual(t, s.node.TTL("lock:x"), time.Second)
		require.LessOrEqual(t, time.Until(short.Until()), time.Second)
		require.NoError(t, short.Unlock(ctx))
	})
}

// What can't work is refused before anything is sent, and the error says the rule.
func TestImpossibleConfiguration(t *testing.T) {
	h := sim.Run(t, func(w *sim.World) {
		a := w.Client("A", w.Node("Redis"))
		for name, opt := range map[string]watchdog.Option{
			"renews too late":      watchdog.WithRenewEvery(lease),
			"waits too long":       watchdog.WithRequestTimeout(25 * time.Second),
			"never renews":         watchdog.WithRenewEvery(-time.Second),
			"renews in 292 years":  watchdog.WithRenewEvery(math.MaxInt64), // the sum overflows
			"waits 292 years":      watchdog.WithRequestTimeout(math.MaxInt64),
			"may not hold so long": watchdog.WithMaxHold(time.Second),
			"may never hold":       watchdog.WithMaxHold(-time.Second),
		} {
			_, err := watchdog.New(a.Redis(), opt).TryLock(ctx, "order:1", lease)
			require.ErrorContains(t, err, "a ttl of 30s", name)
		}
		_, err := watchdog.New(a.Redis()).TryLock(ctx, "order:1", time.Millisecond)
		require.ErrorContains(t, err, "too short to renew")
	})
	require.Empty(t, h.Events)
}

// The work in Do runs under a context that ends with the lease, and Do says why.
func TestDoTellsTheWork(t *testing.T) {
	stage(t, func(s *scene) {
		broken := errors.New("work stopped")
		s.At(time.Second)
		err := s.locker.Do(ctx, "order:2", lease, func(work context.Context) error {
			s.node.Delete("lock:order:2")
			<-work.Done()
			require.ErrorIs(t, context.Cause(work), watchdog.ErrLockLost)
			return broken
		})
		require.Equal(t, 11*time.Second, s.Now())
		var after context.Context
		require.NoError(t, s.locker.Do(ctx, "order:3", lease, func(work context.Context) error { after = work; return nil }))
		require.Error(t, after.Err(), "what the work has left running ends with it")
		for _, want := range []error{broken, watchdog.ErrLockLost, watchdog.ErrExpired} {
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

// R8: a panic ends the renewal with the lock.
func TestPanicInDoEndsTheRenewal(t *testing.T) {
	h := stage(t, func(s *scene) {
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
func TestConcurrentUnlockAndExtend(t *testing.T) {
	h := stage(t, func(s *scene) {
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

// R4: a loss that is known stays a loss, although the Unlock is sent twice and finds nothing the second time either.
func TestKnownLossIsNoLostReply(t *testing.T) {
	stage(t, func(s *scene) {
		s.node.Delete(at)
		s.At(11 * time.Second)
		lost(t, s.k, watchdog.ErrExpired)
		require.False(t, s.k.Until().After(time.Now()))
		s.a.LoseReply(wire.Releases, 1)
		require.ErrorIs(t, s.k.Unlock(ctx), watchdog.ErrExpired)
	})
}
