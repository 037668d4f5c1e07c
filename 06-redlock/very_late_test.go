package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	redlock "example.com/redislock/06-redlock"
	"example.com/redislock/internal/wire"
)

// Q4: the clean-up of a failed attempt waits for a request that is on its way for as long as go-redis does. A grant that
// arrives after that is in nobody's hands. Its TTL ends it.
func TestVeryLateGrantStaysForItsTTL(t *testing.T) {
	stage(t, 3, func(s *scene) {
		p := s.process(t, "A")
		s.nodes[0].Set(at, "a stranger's", time.Hour)
		s.nodes[1].Set(at, "a stranger's", time.Hour)
		late := p.links[2].DeliverLate(wire.Acquires)
		_, err := p.TryLock(ctx, "order:1", lease)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		s.At(20 * time.Second)
		late.Deliver()
		s.At(21 * time.Second)
		require.NotEmpty(t, s.nodes[2].Value(at))
		s.At(51 * time.Second)
		require.Empty(t, s.nodes[2].Value(at))
	})
}
