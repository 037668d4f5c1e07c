package reentrant_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/wire"
)

// A copy of an acquisition counts once while that is held. If it arrives after the release, nobody is left who would release
// it: the last Unlock does not free the key, and its TTL has to end.
func TestCopyAfterTheReleaseStaysForItsTTL(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		late := s.a.DeliverLate(wire.Acquires)
		var unlock error
		s.a.Do(func() {
			inner, err := s.locker.TryLock(s.mine, "order:1", lease)
			require.NoError(t, err)
			unlock = inner.Unlock(ctx)
		})
		s.At(1200 * time.Millisecond)
		s.a.Cut() // the connection breaks under the request, so it is sent again
		s.a.Heal()
		s.At(2 * time.Second)
		require.NoError(t, unlock)
		require.Equal(t, s.value(s.k), s.node.Value(at))
		late.Deliver()
		s.At(3 * time.Second)
		require.NoError(t, s.k.Unlock(ctx))
		require.NotEmpty(t, s.node.Value(at))
		s.At(3*time.Second + lease)
		require.Empty(t, s.node.Value(at))
	})
}
