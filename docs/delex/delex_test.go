package delex

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

var ctx = context.Background()

const key = "lock:order:1"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// take lets a client take the lock for 30 seconds under its own name as the token.
func take(c *sim.Client) (ok bool) {
	c.Do(func() { ok = c.Redis().Do(ctx, "SET", key, c.Name(), "NX", "PX", 30_000).Err() == nil })
	return ok
}

// free lets a client release the lock.
func free(c *sim.Client) (err error) {
	c.Do(func() { err = release(ctx, c.Redis(), key, c.Name()) })
	return err
}

// The race of chapter 2, held up in the same place: A's DELEX arrives when the key is B's, and deletes nothing.
func TestDelexSparesTheNextHolder(t *testing.T) {
	h := sim.Run(t, func(w *sim.World) {
		n := w.Node("Redis")
		a, b, c := w.Client("A", n), w.Client("B", n), w.Client("C", n)
		require.True(t, take(a))
		w.At(29500 * time.Millisecond)
		a.StopBefore(wire.Releases)
		var err error
		a.Do(func() { err = release(ctx, a.Redis(), key, "A") })
		w.At(30500 * time.Millisecond)
		require.True(t, take(b))
		w.At(31 * time.Second)
		a.GoOn()
		require.ErrorIs(t, err, errNotHeld)
		w.At(32 * time.Second)
		require.False(t, take(c), "B still holds the lock")
		require.NoError(t, free(b))
	})
	require.Equal(t, sim.Holds, sim.Check(h).Verdict)
	require.True(t, h.Contended())
}

// A key that has expired and a key that is another's get the same answer. The script of chapter 3 tells them apart.
func TestDelexCannotTellGoneFromAnothers(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		n := w.Node("Redis")
		a, b := w.Client("A", n), w.Client("B", n)
		require.True(t, take(a))
		w.At(31 * time.Second)
		require.Equal(t, errNotHeld, free(a), "the key is gone")
		require.True(t, take(b))
		w.At(32 * time.Second)
		require.Equal(t, errNotHeld, free(a), "the key is B's")
	})
}

// The reply is lost, go-redis sends again, and the second copy finds nothing: a release that has worked looks like a loss.
func TestDelexResentLooksLikeALoss(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		n := w.Node("Redis")
		a, b := w.Client("A", n), w.Client("B", n)
		require.True(t, take(a))
		w.At(time.Second)
		a.LoseReply(wire.Releases, 1)
		var err error
		a.Do(func() { err = release(ctx, a.Redis(), key, "A") })
		w.At(2 * time.Second)
		require.ErrorIs(t, err, errNotHeld)
		require.True(t, take(b), "and yet it was released")
	})
}
