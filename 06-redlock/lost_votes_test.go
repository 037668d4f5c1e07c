package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	redlock "example.com/redislock/06-redlock"
)

// A node that is away until its key has ended has lost its vote, and no renewal brings that back. A hold ends when a majority has
// been away like this, one node after the other, although never more than one at a time.
func TestLostVotesDontComeBack(t *testing.T) {
	stage(t, 5, func(s *scene) {
		k := s.lock(t, s.process(t, "A"))
		for i, n := range s.nodes[:3] {
			require.NoError(t, k.Context().Err(), "after %d nodes", i)
			s.At(time.Duration(10*i+1) * time.Minute)
			n.Crash()
			s.At(time.Duration(10*i+2) * time.Minute)
			n.Restart(true)
			s.At(time.Duration(10*i+3) * time.Minute)
		}
		require.ErrorIs(t, k.Unlock(ctx), redlock.ErrExpired)
	})
}

// A node that comes back with its data before its key has ended keeps its vote: so the hold outlives a restart of all nodes.
func TestQuickRestartsCostNoVote(t *testing.T) {
	stage(t, 5, func(s *scene) {
		k := s.lock(t, s.process(t, "A"))
		for i, n := range s.nodes {
			s.At(time.Duration(10*i+1) * time.Minute)
			n.Crash()
			s.At(time.Duration(10*i+1)*time.Minute + 5*time.Second)
			n.Restart(true)
			s.At(time.Duration(10*i+3) * time.Minute)
			require.NoError(t, k.Context().Err())
		}
		require.NoError(t, k.Unlock(ctx))
	})
}

// An Unlock needs a majority too. Where the others are split, it gives a node that hangs two seconds, and then it can be called
// again: what has been freed stays freed.
func TestUnlockOfASplitVoteWaitsForTheNodeThatHangs(t *testing.T) {
	stage(t, 3, func(s *scene) {
		s.nodes[2].Set(at, "a stranger's", lease)
		k := s.lock(t, s.process(t, "A"))
		s.At(time.Second)
		s.nodes[1].Hang()
		require.NotErrorIs(t, k.Unlock(ctx), redlock.ErrNotHeld, "nobody knows")
		require.InDelta(t, 3*time.Second, s.Now(), float64(instant))
		require.Error(t, k.Context().Err())
		s.nodes[1].Resume()
		s.At(4 * time.Second)
		require.NoError(t, k.Unlock(ctx))
		require.Empty(t, s.nodes[0].Value(at))
		require.Empty(t, s.nodes[1].Value(at))
	})
}
