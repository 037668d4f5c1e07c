package reentrant_test

import (
	"context"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	reentrant "example.com/redislock/05-reentrant"
	"example.com/redislock/internal/sim"
)

// N1: two owners in one process, with one Locker, exclude each other, whichever goroutine they run on.
func TestTwoOwnersInOneProcess(t *testing.T) {
	stage(t, func(s *scene) {
		for _, other := range []context.Context{ctx, reentrant.WithOwner(ctx), reentrant.WithOwner(s.mine)} {
			_, err := s.locker.TryLock(other, "order:1", lease)
			require.ErrorIs(t, err, reentrant.ErrNotAcquired)
		}
		require.Equal(t, s.value(s.k), s.node.Value(at))
	})
}

// N1: nothing in the key comes from the process, its host, or a goroutine, so two containers that are alike in all of that
// are two owners. The value is what the README says: the owner, the acquisition that created the key, and all that hold it.
func TestNothingOfTheProcessInTheKey(t *testing.T) {
	stage(t, func(s *scene) {
		inner, err := s.locker.TryLock(s.mine, "order:1", lease)
		require.NoError(t, err)
		value := s.node.Value(at)
		require.Regexp(t, regexp.MustCompile(`^[0-9a-f]{32}:[0-9a-f]{32},[0-9a-f]{32},[0-9a-f]{32}$`), value)
		require.Equal(t, s.value(s.k, inner), value)
		host, err := os.Hostname()
		require.NoError(t, err)
		require.NotContains(t, value, host)
		require.NotEqual(t, strconv.Itoa(os.Getpid()), value[:32])
		require.NoError(t, inner.Unlock(ctx))

		_, err = s.locker.TryLock(s.mine, "order:2", lease)
		require.NoError(t, err)
		require.Equal(t, value[:32], s.node.Value("lock:order:2")[:32], "an owner is the same in all its locks")
		for range 100 {
			k, err := s.locker.TryLock(reentrant.WithOwner(ctx), "order:3", lease)
			require.NoError(t, err)
			require.NotEqual(t, value[:32], s.node.Value("lock:order:3")[:32])
			require.NoError(t, k.Unlock(ctx))
		}
	})
}

// A goroutine that has the ctx is the owner too: it is inside at the same time as the other. That is the danger.
func TestGoroutineWithTheContextIsInsideToo(t *testing.T) {
	stage(t, func(s *scene) {
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			err = s.locker.Do(s.mine, "order:1", lease, func(context.Context) error {
				require.NoError(t, s.k.Context().Err(), "two are inside")
				return nil
			})
		}()
		<-done
		require.NoError(t, err)
		require.Equal(t, s.value(s.k), s.node.Value(at))
	})
}

// Without an owner in the ctx the second call waits for the first, like chapter 4's.
func TestWithoutOwnerItIsAnOrdinaryLock(t *testing.T) {
	stage(t, func(s *scene) {
		k, err := s.locker.TryLock(ctx, "order:2", lease)
		require.NoError(t, err)
		_, err = s.locker.TryLock(ctx, "order:2", lease)
		require.ErrorIs(t, err, reentrant.ErrNotAcquired)
		_, err = s.locker.TryLock(k.Context(), "order:2", lease)
		require.ErrorIs(t, err, reentrant.ErrNotAcquired, "a handle's context has only the owner that it was given")
		require.NoError(t, k.Unlock(ctx))
	})
}

// The owner goes where the ctx goes: into derived ones, into the work of Do, and into a handle's context.
func TestOwnerIsCarried(t *testing.T) {
	stage(t, func(s *scene) {
		derived, cancel := context.WithTimeout(s.mine, time.Minute)
		defer cancel()
		err := s.locker.Do(derived, "order:1", lease, func(work context.Context) error {
			return s.locker.Do(work, "order:1", lease, func(work context.Context) error {
				k, err := s.locker.TryLock(s.k.Context(), "order:1", lease)
				require.NoError(t, err)
				require.Equal(t, 4, s.depth())
				return k.Unlock(work)
			})
		})
		require.NoError(t, err)
		require.Equal(t, s.value(s.k), s.node.Value(at))
	})
}

// Twenty goroutines with one owner take and free one lock, each with a depth of its own. In the end the key is free.
func TestManyGoroutinesOfOneOwner(t *testing.T) {
	stage(t, func(s *scene) {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for range 10 {
					k, err := s.locker.Lock(s.mine, "order:2", lease)
					require.NoError(t, err)
					require.NoError(t, k.Extend(ctx, lease))
					require.NoError(t, k.Context().Err())
					require.NoError(t, k.Unlock(ctx))
				}
			})
		}
		all.Wait()
		require.Empty(t, s.node.Value("lock:order:2"))
	})
}

// Two Lockers with one owner share the key and not the lease: each renews for its own, and neither shortens the other's.
func TestTwoLockersOfOneOwner(t *testing.T) {
	stage(t, func(s *scene) {
		other := reentrant.New(s.a.Redis())
		k, err := other.TryLock(s.mine, "order:1", 10*time.Second)
		require.NoError(t, err)
		s.At(time.Second)
		require.NoError(t, k.Extend(ctx, 5*time.Second))
		require.Equal(t, 29*time.Second, s.node.TTL(at))
		s.At(time.Minute)
		require.NoError(t, s.k.Context().Err())
		require.NoError(t, s.k.Unlock(ctx))
		require.Equal(t, 1, s.depth())
		s.At(2 * time.Minute)
		require.NoError(t, k.Context().Err())
		require.NoError(t, k.Unlock(ctx))
		require.Empty(t, s.node.Value(at))
	})
}

// A long outer lock forgets its inner ones: what an inner ctx held on to is garbage after its Unlock.
func TestUnlockedHandleIsForgotten(t *testing.T) {
	type request struct{ body []byte }
	stage(t, func(s *scene) {
		var forgotten weak.Pointer[request]
		func() {
			r := &request{body: make([]byte, 1<<10)}
			forgotten = weak.Make(r)
			k, err := s.locker.TryLock(context.WithValue(s.mine, new(int), r), "order:1", lease)
			require.NoError(t, err)
			require.NoError(t, k.Unlock(ctx))
		}()
		for range 100 {
			if runtime.GC(); forgotten.Value() == nil {
				return
			}
			s.At(s.Now() + time.Second)
		}
		t.Error("the inner handle is kept as long as the outer one")
	})
}

// W3: a lease that is over when the answer comes never begins, and its owner does not know of it. Only a process that stands
// still between two lines of its own can get there.
func TestLeaseThatIsOverNeverBegins(t *testing.T) {
	stage(t, func(s *scene) {
		require.ErrorContains(t, reentrant.EnterLate(s.mine, s.locker, "order:2", lease), "after the lease")
		require.Equal(t, 1, reentrant.Leases(s.mine), "only order:1")
	})
}

// W3: a timer that fires while a renewal moves the deadline, and comes second, ends nothing.
func TestTimerThatComesTooLate(t *testing.T) {
	stage(t, func(s *scene) {
		reentrant.ExpireLate(s.k)
		require.NoError(t, s.k.Context().Err())
	})
}

// An owner forgets a key when it is free, so that a long life with many locks does not grow.
func TestOwnerForgetsFreeKeys(t *testing.T) {
	stage(t, func(s *scene) {
		for _, happen := range []func(*sim.Node){func(*sim.Node) {}, func(n *sim.Node) { n.Delete("lock:order:2") }} {
			k, err := s.locker.TryLock(s.mine, "order:2", lease)
			require.NoError(t, err)
			happen(s.node)
			_ = k.Unlock(ctx)
		}
		require.Equal(t, 1, reentrant.Leases(s.mine), "only order:1 is left")
	})
}
