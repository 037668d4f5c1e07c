package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	redlock "example.com/redislock/06-redlock"
)

// Q1: the lease counts from just before the first request, less the margin, however late the answers come.
func TestValidityCountsFromTheFirstRequest(t *testing.T) {
	stage(t, 3, func(s *scene) {
		p := s.process(t, "A", redlock.WithRequestTimeout(2*time.Second))
		for _, n := range s.nodes {
			n.Hang()
		}
		var k *redlock.Lock
		call := background(func() (err error) {
			k, err = p.TryLock(ctx, "order:1", lease)
			return err
		})
		s.At(time.Second)
		for _, n := range s.nodes {
			n.Resume()
		}
		err, done := call()
		require.True(t, done)
		require.NoError(t, err)
		require.Equal(t, end(0, lease), s.until(k))
		for _, n := range s.nodes {
			require.Greater(t, s.Now()+n.TTL(at), s.until(k))
		}
		require.NoError(t, k.Unlock(ctx))
	})
}

// Q1: each attempt of a Lock that waits has a start of its own.
func TestValidityCountsFromTheLastAttempt(t *testing.T) {
	stage(t, 3, func(s *scene) {
		p, q := s.process(t, "A"), s.process(t, "B")
		k := s.lock(t, q)
		var mine *redlock.Lock
		call := background(func() (err error) {
			mine, err = p.Lock(ctx, "order:1", lease)
			return err
		})
		s.At(20 * time.Second)
		require.NoError(t, k.Unlock(ctx))
		s.At(21 * time.Second)
		err, done := call()
		require.True(t, done)
		require.NoError(t, err)
		require.Greater(t, s.until(mine), end(20*time.Second, lease))
		require.Less(t, s.until(mine), end(21*time.Second, lease))
		require.NoError(t, mine.Unlock(ctx))
	})
}

// Q1: Extend counts like an acquisition, from before its first request.
func TestExtendCountsFromItsFirstRequest(t *testing.T) {
	stage(t, 3, func(s *scene) {
		p := s.process(t, "A", redlock.WithRequestTimeout(2*time.Second))
		k := s.lock(t, p)
		s.At(5 * time.Second)
		for _, n := range s.nodes {
			n.Hang()
		}
		call := background(func() error { return k.Extend(ctx, 2*lease) })
		_, done := call()
		require.False(t, done)
		require.Equal(t, end(0, lease), s.until(k), "a longer lease counts when a majority has granted it")
		s.At(6 * time.Second)
		s.nodes[0].Resume()
		_, done = call()
		require.False(t, done)
		require.Equal(t, end(0, lease), s.until(k), "one node is no majority")
		s.nodes[1].Resume()
		err, done := call()
		require.True(t, done)
		require.NoError(t, err)
		require.Equal(t, end(5*time.Second, 2*lease), s.until(k))
		s.nodes[2].Resume()
	})
}

// Q6: when a majority has lost the key, the holder is told within one interval, and told why.
func TestLostMajorityIsToldWithinOneInterval(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		why   error
	}{"gone": {"", redlock.ErrExpired}, "stolen": {"a thief's", redlock.ErrStolen}} {
		t.Run(name, func(t *testing.T) {
			stage(t, 5, func(s *scene) {
				k := s.lock(t, s.process(t, "A"))
				s.At(5 * time.Second)
				for _, n := range s.nodes[1:4] {
					n.Delete(at)
					if c.value != "" {
						n.Set(at, c.value, 10*lease)
					}
				}
				s.At(9 * time.Second)
				require.NoError(t, k.Context().Err())
				s.At(10*time.Second + time.Millisecond)
				require.ErrorIs(t, context.Cause(k.Context()), redlock.ErrLockLost)
				require.ErrorIs(t, context.Cause(k.Context()), c.why)
				require.ErrorIs(t, k.Unlock(ctx), c.why)
				s.At(11 * time.Second)
				require.Empty(t, s.nodes[0].Value(at))
				require.Equal(t, c.value, s.nodes[1].Value(at))
			})
		})
	}
}

// A minority that has lost the key, is another's, is down or hangs costs nothing.
func TestLostMinorityCostsNothing(t *testing.T) {
	stage(t, 5, func(s *scene) {
		k := s.lock(t, s.process(t, "A"))
		s.At(5 * time.Second)
		s.nodes[0].Delete(at)
		s.nodes[0].Set(at, "a thief's", 100*lease)
		s.nodes[1].Crash()
		s.At(5 * time.Minute)
		require.NoError(t, k.Context().Err())
		require.NoError(t, k.Unlock(ctx))
		s.At(6 * time.Minute)
		require.Equal(t, "a thief's", s.nodes[0].Value(at))
	})
}

// A majority that hangs ends the lease at its deadline, before its keys can end.
func TestContextEndsBeforeTheMajorityDoes(t *testing.T) {
	stage(t, 3, func(s *scene) {
		k := s.lock(t, s.process(t, "A"))
		s.At(12 * time.Second)
		s.nodes[0].Hang()
		s.nodes[2].Hang()
		<-k.Context().Done()
		require.ErrorIs(t, context.Cause(k.Context()), redlock.ErrLockLost)
		require.Equal(t, end(10*time.Second, lease), s.Now().Truncate(time.Millisecond))
		require.NotEmpty(t, s.nodes[0].Value(at))
		require.NotEmpty(t, s.nodes[2].Value(at))
	})
}

// A shorter lease counts at once, whatever becomes of the request.
func TestUnknownShorteningShortensTheDeadline(t *testing.T) {
	stage(t, 3, func(s *scene) {
		k := s.lock(t, s.process(t, "A"))
		s.At(time.Second)
		for _, n := range s.nodes {
			n.Hang()
		}
		require.Error(t, k.Extend(ctx, 10*time.Second))
		require.LessOrEqual(t, s.until(k), end(time.Second+instant, 10*time.Second))
	})
}
