package spotthebug

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
)

func newManager(c *sim.Client) *manager { return &manager{rdb: c.Redis(), held: map[string]*hold{}} }

// A fresh id per call can't equal the one that is held, so nobody ever enters twice.
func TestFreshIDNeverReenters(t *testing.T) {
	pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
		a.Do(func() {
			m := newManager(a)
			first, _ := m.tryLock(ctx, key)
			again, _ := m.tryLock(ctx, key)
			require.True(t, first)
			require.False(t, again, "the slip: A is refused by itself")
		})
		n.Delete(key)
		a.Do(func() {
			m, owner := newManager(a), newToken()
			first, _ := m.tryLockAs(ctx, key, owner)
			again, _ := m.tryLockAs(ctx, key, owner)
			require.True(t, first && again, "mended: the owner hands its id on")
		})
		require.False(t, takes(b), "and excludes B")
	})
}

// The map says "held" after the lease has ended, and lets A in beside B without asking Redis.
func TestReentryFromMemory(t *testing.T) {
	reenters := func(try func(m *manager, owner string) bool) (in bool) {
		pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
			m, owner := newManager(a), newToken()
			a.Do(func() { require.True(t, try(m, owner)) })
			w.At(31 * time.Second)
			require.True(t, takes(b), "B is inside")
			w.At(32 * time.Second)
			a.Do(func() { in = try(m, owner) })
		})
		return in
	}
	require.True(t, reenters(func(m *manager, owner string) bool {
		ok, _ := m.tryLockAs(ctx, key, owner)
		return ok
	}), "the slip")
	require.False(t, reenters(func(m *manager, owner string) bool {
		ok, _ := m.tryLockMended(ctx, key, owner)
		return ok
	}), "mended")
}
