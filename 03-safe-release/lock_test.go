package saferelease_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	saferelease "example.com/redislock/03-safe-release"
	"example.com/redislock/internal/contract"
	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Everything that a lock must get right, in virtual time and on a real server.
func TestContract(t *testing.T) { contract.Run(t, "03") }

var ctx = context.Background()

const lease = 30 * time.Second

// stage runs f in virtual time, with a client of one Redis and a lock that it holds.
func stage(t *testing.T, f func(w *sim.World, n *sim.Node, a *sim.Client, k *saferelease.Lock), opts ...func(*redis.Options)) *sim.History {
	return sim.Run(t, func(w *sim.World) {
		defer explain(t, w)
		n := w.Node("Redis")
		a := w.Client("A", n, opts...)
		k, err := saferelease.New(a.Redis()).TryLock(ctx, "order:1", lease)
		require.NoError(t, err)
		f(w, n, a, k)
	})
}

// explain shows what happened, if the test fails.
func explain(t *testing.T, w *sim.World) {
	if t.Failed() {
		t.Log("\n" + sim.Timeline(w.History(), sim.Check(w.History()), false))
	}
}

// commands counts what has been sent.
func commands(h *sim.History) int {
	n := 0
	for _, e := range h.Events {
		if e.Kind == sim.Command {
			n++
		}
	}
	return n
}

// After a definite answer there is nothing left to ask: a second Unlock sends nothing.
func TestUnlockAfterADefiniteAnswerSendsNothing(t *testing.T) {
	for name, lose := range map[string]func(*sim.Node){
		"freed":   func(*sim.Node) {},
		"expired": func(n *sim.Node) { n.Delete("lock:order:1") },
		"stolen":  func(n *sim.Node) { n.Set("lock:order:1", "another's", lease) },
	} {
		t.Run(name, func(t *testing.T) {
			h := stage(t, func(_ *sim.World, n *sim.Node, _ *sim.Client, k *saferelease.Lock) {
				lose(n)
				_ = k.Unlock(ctx)
				require.ErrorIs(t, k.Unlock(ctx), saferelease.ErrNotHeld)
			})
			require.Equal(t, 2, commands(h))
		})
	}
}

// Twenty goroutines unlock one handle, and one of them asks Redis.
func TestConcurrentUnlocksSendOneCommand(t *testing.T) {
	h := stage(t, func(_ *sim.World, _ *sim.Node, _ *sim.Client, k *saferelease.Lock) {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { _ = k.Unlock(ctx) })
		}
		all.Wait()
	})
	require.Equal(t, 2, commands(h))
}

// A server that hangs costs an Unlock its two seconds, if go-redis heeds deadlines.
func TestUnlockHasABudget(t *testing.T) {
	stage(t, func(w *sim.World, n *sim.Node, _ *sim.Client, k *saferelease.Lock) {
		n.Hang()
		err := k.Unlock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, saferelease.ErrNotHeld)
		require.Equal(t, 2*time.Second, w.Now())
		n.Resume() // the release is executed now
		require.NoError(t, k.Unlock(ctx), "it was this handle's own")
		require.Empty(t, n.Value("lock:order:1"))
	}, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
}

// The key lives for whole milliseconds, so the lease must not count the rest of a TTL: a lost reply in that rest
// would pass for a success.
func TestLeaseEndsWithTheKey(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		defer explain(t, w)
		n := w.Node("Redis")
		a := w.Client("A", n)
		k, err := saferelease.New(a.Redis()).TryLock(ctx, "order:1", 1900*time.Microsecond)
		require.NoError(t, err)
		w.At(1500 * time.Microsecond)
		require.Empty(t, n.Value("lock:order:1"))
		a.LoseReply(wire.Releases, 1)
		require.ErrorIs(t, k.Unlock(ctx), saferelease.ErrExpired)
	})
}

// The lease begins when the first request goes out, and not with the answer: here that takes two requests, and the
// first one made the key.
func TestLeaseBeginsWithTheRequest(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		defer explain(t, w)
		n := w.Node("Redis")
		a := w.Client("A", n)
		a.LoseReply(wire.Acquires, 1)
		k, err := saferelease.New(a.Redis()).TryLock(ctx, "order:1", lease)
		require.NoError(t, err)
		require.Positive(t, w.Now())
		w.At(lease + time.Millisecond)
		require.Empty(t, n.Value("lock:order:1"))
		a.LoseReply(wire.Releases, 1)
		require.ErrorIs(t, k.Unlock(ctx), saferelease.ErrExpired)
	})
}

// Do waits for the lock as Lock does, and its function gets the caller's context.
func TestDoWaits(t *testing.T) {
	stage(t, func(w *sim.World, _ *sim.Node, a *sim.Client, _ *saferelease.Lock) {
		type key struct{}
		mine := context.WithValue(ctx, key{}, "mine")
		err := saferelease.New(a.Redis()).Do(mine, "order:1", lease, func(ctx context.Context) error {
			require.GreaterOrEqual(t, w.Now(), lease)
			require.Equal(t, "mine", ctx.Value(key{}))
			return nil
		})
		require.NoError(t, err)
	})
}
