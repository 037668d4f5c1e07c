package spotthebug

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// A's renewal prolongs whatever it finds, and that is B's lease by now.
func TestRenewalWithoutOwnerCheck(t *testing.T) {
	pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
		token := newToken()
		a.Do(func() { _, _ = take(ctx, a.Redis(), key, token) })
		w.At(31 * time.Second)
		require.True(t, takes(b))
		w.At(40 * time.Second)
		a.Do(func() {
			ours, err := renew(ctx, a.Redis(), key, token)
			require.NoError(t, err)
			require.False(t, ours, "mended: A learns that it has lost the lock")
			require.Equal(t, 21*time.Second, n.TTL(key), "mended: B's lease is as B left it")

			ours, err = renewLease(ctx, a.Redis(), key)
			require.NoError(t, err)
			require.True(t, ours, "the slip: A believes that it holds the lock")
			require.Equal(t, 30*time.Second, n.TTL(key), "the slip: and has touched B's lease")
		})
	})
}

// An end that has just passed makes a negative TTL. PEXPIRE deletes the key then, and answers 1.
func TestExtendIntoThePast(t *testing.T) {
	type extender func(context.Context, redis.UniversalClient, string, string, time.Time) (bool, error)
	try := func(extend extender) (ours, in bool) {
		pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
			token := newToken()
			a.Do(func() { _, _ = take(ctx, a.Redis(), key, token) })
			w.At(time.Second)
			a.Do(func() { ours, _ = extend(ctx, a.Redis(), key, token, time.Now().Add(-time.Second)) })
			w.At(2 * time.Second)
			in = takes(b)
		})
		return ours, in
	}
	ours, in := try(extendUntil)
	require.True(t, ours, "the slip: A is told that its lease is longer now")
	require.True(t, in, "the slip: and B is inside")
	ours, in = try(extendUntilMended)
	require.False(t, ours, "mended")
	require.False(t, in, "mended: what was left of the lease is still A's")
}

// The reply comes 20 seconds late. Counted from the reply, the lease looks 20 seconds longer than it is.
func TestDeadlineCountedFromTheReply(t *testing.T) {
	type leaser func(context.Context, redis.UniversalClient, string, string) (time.Time, error)
	outlives := func(lease leaser) (by time.Duration) {
		pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
			token := newToken()
			start := time.Now()
			a.Do(func() { _, _ = take(ctx, a.Redis(), key, token) })
			w.At(time.Second)
			a.StopAfter(wire.Extends)
			var until time.Time
			a.Do(func() { until, _ = lease(ctx, a.Redis(), key, token) })
			w.At(21 * time.Second)
			a.GoOn()
			by = until.Sub(start) - (w.Now() + n.TTL(key))
		})
		return by
	}
	require.Equal(t, 20*time.Second, outlives(leaseUntil), "the slip: for 20 seconds A trusts a lease that has ended")
	require.Negative(t, outlives(leaseUntilMended), "mended: A stops before the key does")
}

// The renewal fails and says so in a log. The work goes on, and B is in.
func TestRenewalThatOnlyLogs(t *testing.T) {
	type keeper func(context.Context, redis.UniversalClient, string, string, context.CancelCauseFunc)
	faults := map[string]func(n *sim.Node, a *sim.Client){
		"the key is gone":  func(n *sim.Node, a *sim.Client) { n.Delete(key) },
		"A loses contact":  func(n *sim.Node, a *sim.Client) { a.Cut() },
		"Redis refuses it": func(n *sim.Node, a *sim.Client) { n.Refuse("READONLY You can't write against a read only replica.") },
	}
	for name, happen := range faults {
		works := func(keep keeper) (working bool) {
			pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
				work, end := context.WithCancelCause(ctx)
				defer end(nil)
				token := newToken()
				a.Do(func() { _, _ = take(ctx, a.Redis(), key, token) })
				go keep(work, a.Redis(), key, token, end)
				w.At(12 * time.Second)
				happen(n, a)
				w.At(40500 * time.Millisecond)
				n.Accept()
				require.True(t, takes(b), "B is inside")
				w.At(long)
				working = !stopped(work)
				a.Heal()
				end(nil)
			})
			return working
		}
		onlyLogs := func(c context.Context, rdb redis.UniversalClient, key, token string, _ context.CancelCauseFunc) {
			keepAlive(c, rdb, key, token)
		}
		require.True(t, works(onlyLogs), "the slip, when %s: A works at 45s beside B", name)
		require.False(t, works(keepAliveMended), "mended, when %s", name)
	}
}

// The first request has lost its lease long ago. When it leaves, it ends the renewal of the second, and B comes in.
func TestRenewalsKeptByKey(t *testing.T) {
	comesIn := func(start func(a *sim.Client, token string) (end func())) (in bool) {
		pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
			var first, second func()
			acquireAndKeep := func(end *func()) {
				a.Do(func() {
					lock, err := acquire(ctx, a.Redis(), key)
					require.NoError(t, err)
					*end = start(a, lock.token)
				})
			}
			acquireAndKeep(&first)
			w.At(12 * time.Second)
			n.Delete(key)
			w.At(21 * time.Second)
			acquireAndKeep(&second)
			w.At(25 * time.Second)
			first()
			w.At(60 * time.Second) // the second request is still at work
			in = takes(b)
			second()
		})
		return in
	}
	var d *watchdogs
	require.True(t, comesIn(func(a *sim.Client, token string) func() {
		if d == nil {
			d = &watchdogs{rdb: a.Redis(), stop: map[string]context.CancelFunc{}}
		}
		d.start(key, token)
		return func() { d.end(key) }
	}), "the slip")
	require.False(t, comesIn(func(a *sim.Client, token string) func() {
		return startMended(a.Redis(), key, token)
	}), "mended")
}
