package spotthebug

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"example.com/redislock/internal/sim"
)

var ctx = context.Background()

const key = "lock:order:1"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// once lets go-redis send a command one time only.
func once(o *redis.Options) { o.MaxRetries = -1 }

// deadlines lets go-redis stop at a ctx's deadline while a command is in flight.
func deadlines(o *redis.Options) { o.MaxRetries, o.ContextTimeoutEnabled = -1, true }

// pair is one Redis and two processes that use it.
func pair(t *testing.T, happen func(w *sim.World, n *sim.Node, a, b *sim.Client)) {
	t.Helper()
	sim.Run(t, func(w *sim.World) {
		n := w.Node("Redis")
		happen(w, n, w.Client("A", n, once), w.Client("B", n, once))
	})
}

// takes lets a client take the lock with a new token, and reports whether it got it.
func takes(c *sim.Client) bool {
	ok := false
	c.Do(func() { ok, _ = take(ctx, c.Redis(), key, newToken()) })
	return ok
}

// cluster is five independent nodes.
func cluster(w *sim.World) []*sim.Node {
	var all []*sim.Node
	for _, name := range []string{"N1", "N2", "N3", "N4", "N5"} {
		all = append(all, w.Node(name))
	}
	return all
}

// reach gives a process a go-redis client of each node.
func reach(w *sim.World, name string, all []*sim.Node, opts ...func(*redis.Options)) (*sim.Client, nodes) {
	c := w.Client(name, all[0], opts...)
	rdbs := nodes{c.Redis()}
	for _, n := range all[1:] {
		rdbs = append(rdbs, c.Connect(n, opts...))
	}
	return c, rdbs
}

// stopped reports whether err, as a cause, says that the lock is lost.
func stopped(c context.Context) bool { return errors.Is(context.Cause(c), errLost) }

const long = 45 * time.Second // of work
