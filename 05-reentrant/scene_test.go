package reentrant_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	reentrant "example.com/redislock/05-reentrant"
	"example.com/redislock/internal/sim"
)

var ctx = context.Background()

const (
	lease = 30 * time.Second
	at    = "lock:order:1"
)

// scene is one Redis, and A, who holds order:1 there.
type scene struct {
	*sim.World
	t      *testing.T
	node   *sim.Node
	a      *sim.Client
	mine   context.Context // A's, with its owner
	locker *reentrant.Locker
	k      *reentrant.Lock
}

// stage lets A take the lock at 0s, and f do the rest. Whoever still holds it in the end lets go.
func stage(t *testing.T, f func(s *scene), opts ...reentrant.Option) *sim.History {
	t.Helper()
	return sim.Run(t, func(w *sim.World) {
		s := &scene{World: w, t: t, node: w.Node("Redis")}
		s.a = w.Client("A", s.node)
		s.mine = reentrant.WithOwner(ctx)
		s.locker = reentrant.New(s.a.Redis(), opts...)
		var err error
		s.k, err = s.locker.TryLock(s.mine, "order:1", lease)
		require.NoError(t, err)
		w.AtEnd(func() { _ = s.k.Unlock(ctx) })
		f(s)
	})
}

// value is what the key holds as long as these have it, the one that created it first.
func (s *scene) value(all ...*reentrant.Lock) string {
	owner, _, _ := strings.Cut(s.node.Value(at), ":")
	value := owner + ":" + all[0].Token()
	for _, k := range all {
		value += "," + k.Token()
	}
	return value
}

// again lets A enter once more. What it has not unlocked in the end, the scene unlocks.
func (s *scene) again(ttl time.Duration) *reentrant.Lock {
	k, err := s.locker.TryLock(s.mine, "order:1", ttl)
	require.NoError(s.t, err)
	s.AtEnd(func() { _ = k.Unlock(ctx) })
	return k
}

// depth is how many acquisitions hold the key.
func (s *scene) depth() int { return strings.Count(s.node.Value(at), ",") }

// times lists when a command was executed, and how it was answered.
func times(h *sim.History, name, reply string) (all []time.Duration) {
	for _, e := range h.Events {
		if e.Kind == sim.Command && e.Text == name && e.Reply == reply {
			all = append(all, e.At)
		}
	}
	return all
}

func lost(t *testing.T, k *reentrant.Lock, why error) {
	t.Helper()
	require.Error(t, k.Context().Err())
	require.ErrorIs(t, context.Cause(k.Context()), reentrant.ErrLockLost)
	if why != nil {
		require.ErrorIs(t, context.Cause(k.Context()), why)
	}
}
