package sim_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// overtaken is a story: A's lease ends while its DEL waits to be sent, and the DEL hits B's key.
func overtaken(w *sim.World) {
	n := w.Node("Redis")
	a, b := w.Client("A", n), w.Client("B", n)
	lock := func(c *sim.Client) func() {
		return func() { c.Redis().Do(context.Background(), "SET", "lock:x", "1", "NX", "PX", 30_000) }
	}
	a.Do(lock(a))
	w.At(29 * time.Second)
	a.StopBefore(wire.Releases)
	a.Do(func() { a.Redis().Del(context.Background(), "lock:x") })
	w.At(31 * time.Second)
	b.Do(lock(b))
	w.At(32 * time.Second)
	a.GoOn()
}

func Example() {
	t := &testing.T{} // your test's own

	h := sim.Run(t, overtaken)
	f := sim.Check(h)
	if f.Verdict != sim.Holds {
		t.Errorf("%s", sim.Timeline(h, f, false))
	}
}

// What the Example would print.
func TestExample(t *testing.T) {
	h := sim.Run(t, overtaken)
	require.Equal(t, strings.TrimPrefix(`
     time  A                               B                               lock:x
       0s  SET NX PX 30000 → OK                                            A, 30s left
        ⋮
      29s  stops before DEL
        ⋮  ‖
      30s  ‖                                                               TTL ends: free
        ⋮  ‖
      31s  ‖                               SET NX PX 30000 → OK            B, 30s left
        ⋮  ‖
      32s  goes on
>>         DEL → 1                                                         free

deleted another's lock: A deletes at 32s the key that B has owned since 31s.
`, "\n"), sim.Timeline(h, sim.Check(h), false))
}
