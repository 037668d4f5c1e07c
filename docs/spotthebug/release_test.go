package spotthebug

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
)

// "Expired", "stolen" and "Redis is out of order" all come back as false, and ask for three different things.
func TestReleaseErrorsSwallowed(t *testing.T) {
	situations := map[error]func(w *sim.World, n *sim.Node, b *sim.Client){
		errExpired: func(w *sim.World, n *sim.Node, b *sim.Client) { w.At(31 * time.Second) },
		errStolen: func(w *sim.World, n *sim.Node, b *sim.Client) {
			w.At(31 * time.Second)
			require.True(t, takes(b))
		},
		nil: func(w *sim.World, n *sim.Node, b *sim.Client) {
			n.Refuse("LOADING Redis is loading the dataset in memory")
		},
	}
	for want, happen := range situations {
		pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
			token := newToken()
			a.Do(func() { _, _ = take(ctx, a.Redis(), key, token) })
			happen(w, n, b)
			a.Do(func() {
				require.False(t, free(ctx, a.Redis(), key, token), "the slip: always the same")
				err := release(ctx, a.Redis(), key, token)
				require.Error(t, err, "mended")
				if want != nil {
					require.ErrorIs(t, err, want, "mended")
				} else {
					require.False(t, errors.Is(err, errExpired) || errors.Is(err, errStolen), "mended: nobody knows yet")
				}
			})
		})
	}
}

// An object with one id has two acquisitions, and the late unlock of the first frees the second.
func TestOneIDPerObject(t *testing.T) {
	// The first request's lease has ended, the second works, and now the first unlocks. Can B come in?
	comesIn := func(first, second, unlockFirst func(rdb redis.UniversalClient)) (in bool) {
		pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
			a.Do(func() { first(a.Redis()) })
			w.At(31 * time.Second)
			a.Do(func() { second(a.Redis()) })
			require.NotEmpty(t, n.Value(key), "the second request holds the lock")
			w.At(32 * time.Second)
			a.Do(func() { unlockFirst(a.Redis()) })
			w.At(33 * time.Second)
			in = takes(b)
		})
		return in
	}
	var m *mutex
	lock := func(redis.UniversalClient) { _, _ = m.tryLock(ctx) }
	require.True(t, comesIn(
		func(rdb redis.UniversalClient) { m = newMutex(rdb, key); lock(rdb) },
		lock,
		func(redis.UniversalClient) { require.NoError(t, m.unlock(ctx)) },
	), "the slip: B works beside the second request")

	var first *acquisition
	require.False(t, comesIn(
		func(rdb redis.UniversalClient) { first, _ = acquire(ctx, rdb, key) },
		func(rdb redis.UniversalClient) { _, _ = acquire(ctx, rdb, key) },
		func(redis.UniversalClient) { require.ErrorIs(t, first.unlock(ctx), errStolen) },
	), "mended")
}

// The request is cancelled while it works, so its deferred unlock sends nothing.
func TestUnlockOnTheRequestsContext(t *testing.T) {
	type handler func(context.Context, redis.UniversalClient, string, func(context.Context) error) error
	freeAfter := func(serve handler) (in bool) {
		pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
			request, cancel := context.WithCancel(ctx)
			a.Do(func() {
				err := serve(request, a.Redis(), key, func(c context.Context) error {
					cancel() // the user has closed the page
					return c.Err()
				})
				require.ErrorIs(t, err, context.Canceled)
			})
			w.At(time.Second)
			in = takes(b)
		})
		return in
	}
	require.False(t, freeAfter(handle), "the slip: nobody works, and nobody gets the lock")
	require.True(t, freeAfter(handleMended), "mended")
}
