package failover_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/story"
)

// A node that restarts without its data still votes twice: the token protects the resource, and not the lock.
func TestNodeRestartsEmpty(t *testing.T) { story.Tell(t, story.NodeRestartsEmpty) }

// When a majority of the nodes come back without their counts, tokens start again, and are smaller than what the resource has
// seen: every new holder is refused. To recover, read the largest token that the guards have seen, and set the counts
// (fence:…) of a majority of the nodes to at least that before they serve again.
func TestCounterLost(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		c := five(w)
		_, a := c.client(t, "A")
		stock := w.Resource("stock", 100)
		taken := func() int64 {
			k, err := a.TryLock(ctx, "order:1", lease)
			require.NoError(t, err)
			defer func() { _ = k.Unlock(ctx) }()
			return k.Fence()
		}
		clientB, _ := c.client(t, "B")
		for range 3 {
			last := taken()
			w.At(w.Now() + time.Second)
			require.True(t, clientB.WriteFenced(stock, 99, last))
		}
		for _, n := range c.nodes[:3] {
			n.Restart(false)
		}
		w.At(w.Now() + time.Minute)
		again := taken()
		require.LessOrEqual(t, again, int64(4))
		for _, n := range c.nodes {
			n.Restart(false)
		}
		w.At(w.Now() + time.Minute)
		again = taken()
		require.Equal(t, int64(1), again, "the tokens start again")
		require.False(t, clientB.WriteFenced(stock, 98, again), "and the resource refuses them")
		for _, n := range c.nodes[:3] {
			n.Set("fence:{lock:order:1}", "3", 0) // the largest token that the resource has seen
		}
		w.At(w.Now() + time.Minute)
		require.True(t, clientB.WriteFenced(stock, 98, taken()), "after the counts are set, they grow again")
	})
}
