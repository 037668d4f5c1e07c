// Package five_test runs chapter 6's lock on five real servers. It stands apart from the lock's own tests because those say
// exactly what fails after a change, with and without a redis-server.
package five_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	redlock "example.com/redislock/06-redlock"
	"example.com/redislock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// five is five real servers, and a locker whose go-redis clients have their defaults. A node has two seconds to answer, on
// machines that are busy with other things too: whoever waits for one that hangs is found out.
type five struct {
	*redlock.Locker
	servers []*redistest.Server
}

var ctx = context.Background()

const (
	lease    = 30 * time.Second
	patience = 20 * time.Second
)

func startFive(t *testing.T) *five {
	t.Helper()
	f := &five{}
	for range 5 {
		f.servers = append(f.servers, redistest.Start(t))
	}
	f.Locker = f.another(t)
	return f
}

// another is a second process, as far as the servers can tell.
func (f *five) another(t *testing.T) *redlock.Locker {
	t.Helper()
	var nodes []redis.UniversalClient
	for _, server := range f.servers {
		node := redis.NewClient(&redis.Options{Addr: server.Addr()})
		t.Cleanup(func() { require.NoError(t, node.Close()) })
		nodes = append(nodes, node)
	}
	locker, err := redlock.New(nodes, redlock.WithRequestTimeout(2*time.Second))
	require.NoError(t, err)
	return locker
}

// empty waits until none of the servers has a key.
func (f *five) empty(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for i, server := range servers {
		truth := server.Client(t)
		require.Eventually(t, func() bool { return truth.DBSize(ctx).Val() == 0 }, patience, 10*time.Millisecond, "server %d", i+1)
	}
}

// Q3: one of five real servers is stopped. No call waits for it, and what it was sent meanwhile is gone when it goes on.
func TestOneOfFiveHangs(t *testing.T) {
	f := startFive(t)
	round := func() time.Duration {
		start := time.Now()
		k, err := f.TryLock(ctx, "order:1", lease)
		require.NoError(t, err)
		took := time.Since(start)
		require.NoError(t, k.Extend(ctx, lease))
		require.NoError(t, k.Unlock(ctx))
		require.Less(t, time.Since(start), time.Second)
		return took
	}
	var healthy, hung time.Duration
	for range 20 {
		healthy += round()
	}
	f.servers[4].Pause()
	for range 20 {
		hung += round()
	}
	t.Logf("TryLock took %.1f times as long with one of five hung", float64(hung)/float64(healthy))
	f.servers[4].Resume()
	f.empty(t, f.servers...)
}

// Two of five real servers are killed: the lock is still to be had. With three it is not, the error names them, and nothing is
// left on the others.
func TestServersDie(t *testing.T) {
	f := startFive(t)
	f.servers[0].Kill()
	f.servers[3].Kill()
	k, err := f.TryLock(ctx, "order:1", lease)
	require.NoError(t, err)
	_, err = f.another(t).TryLock(ctx, "order:1", lease)
	require.ErrorIs(t, err, redlock.ErrNotAcquired)
	require.NoError(t, k.Unlock(ctx))
	f.servers[4].Kill()
	_, err = f.TryLock(ctx, "order:1", lease)
	require.Error(t, err)
	require.NotErrorIs(t, err, redlock.ErrNotAcquired, "nobody holds it")
	for _, node := range []string{"node 1: ", "node 4: ", "node 5: "} {
		require.ErrorContains(t, err, node)
	}
	f.empty(t, f.servers[1], f.servers[2])
}

// Q4: the caller's deadline is over, and three of five real servers hang. The two that have said yes are freed at once, and
// the three execute what was sent to them when they go on, and are freed too.
func TestCleanUpOfFiveOutlivesTheCaller(t *testing.T) {
	f := startFive(t)
	for _, server := range f.servers[:3] {
		server.Pause()
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err := f.TryLock(short, "order:1", lease)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	f.empty(t, f.servers[3:]...)
	for _, server := range f.servers[:3] {
		server.Resume()
	}
	f.empty(t, f.servers...)
}

// Unlock frees all five real servers, although the ctx that it gets has ended.
func TestUnlockOfFiveOnAnEndedContext(t *testing.T) {
	f := startFive(t)
	over, cancel := context.WithCancel(ctx)
	k, err := f.TryLock(over, "order:1", lease)
	require.NoError(t, err)
	cancel()
	require.NoError(t, k.Unlock(over))
	f.empty(t, f.servers...)
}

// Q7: two processes start together on five real servers, two hundred times. Both get in, one after the other.
func TestTwoMeetOnFive(t *testing.T) {
	f := startFive(t)
	both := []*redlock.Locker{f.Locker, f.another(t)}
	var inside, entered, refused atomic.Int32
	for range 200 {
		limit, cancel := context.WithTimeout(ctx, patience)
		gate := make(chan struct{})
		var all sync.WaitGroup
		for _, locker := range both {
			all.Go(func() {
				<-gate
				k, err := locker.TryLock(limit, "order:1", lease)
				if err != nil {
					refused.Add(1)
					k, err = locker.Lock(limit, "order:1", lease)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if inside.Add(1) > 1 {
					t.Error("two holders")
				}
				entered.Add(1)
				inside.Add(-1)
				if err := k.Unlock(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		close(gate)
		all.Wait()
		cancel()
	}
	require.EqualValues(t, 400, entered.Load())
	require.NotZero(t, refused.Load(), "they have never met")
	t.Logf("%d of 400 were refused at first", refused.Load())
	f.empty(t, f.servers...)
}
