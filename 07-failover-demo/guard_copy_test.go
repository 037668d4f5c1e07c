package failover_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	failover "example.com/redislock/07-failover-demo"
	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// A token orders holders, and not what one holder writes: a copy of its first write that arrives late undoes its second.
func TestLateCopyUndoesTheSameHoldersNextWrite(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		a := w.Client("A", w.Node("Redis"))
		g := failover.NewGuard(a.Redis())
		late := a.DeliverLate(wire.Named("guard"))
		var first, second error
		a.Do(func() {
			first = g.Write(ctx, "stock", "99", 34)
			second = g.Write(ctx, "stock", "98", 34)
		})
		w.At(time.Second)
		a.Cut() // the connection breaks under the request, so go-redis sends it again
		a.Heal()
		w.At(2 * time.Second)
		require.NoError(t, first)
		require.NoError(t, second)
		late.Deliver()
		value, err := g.Read(ctx, "stock", 34)
		require.NoError(t, err)
		require.Equal(t, "99", value)
	})
}
