package reentrant_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/wire"
)

// W3: the cause of a loss says what is known, also where no request has failed: one is on its way, or the process stood still.
func TestCauseWithoutAFailedRequest(t *testing.T) {
	stage(t, func(s *scene) {
		s.At(time.Second)
		s.a.DeliverLate(wire.Extends)
		require.Error(t, s.k.Extend(ctx, 600*time.Millisecond)) // from now on the lease counts as short as this
		require.NoError(t, s.k.Extend(ctx, time.Hour))          // and a request may take a second again
		s.node.Hang()
		s.At(2 * time.Second)
		lost(t, s.k, nil)
		require.ErrorContains(t, context.Cause(s.k.Context()), "stood still")
	})
}
