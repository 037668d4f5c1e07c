package failover_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	failover "example.com/redislock/07-failover-demo"
	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

var ctx = context.Background()

const lease = 30 * time.Second

// cast is five nodes, and clients that each use all of them.
type cast struct {
	*sim.World
	nodes []*sim.Node
	last  []redis.UniversalClient // the newest client's, one for each node
}

func five(w *sim.World) *cast {
	c := &cast{World: w}
	for i := range 5 {
		c.nodes = append(c.nodes, w.Node(fmt.Sprintf("N%d", i+1)))
	}
	return c
}

func (c *cast) client(t *testing.T, name string, opts ...failover.Option) (*sim.Client, *failover.Locker) {
	client := c.Client(name, c.nodes[0])
	all := []redis.UniversalClient{client.Redis()}
	for _, n := range c.nodes[1:] {
		all = append(all, client.Connect(n))
	}
	c.last = all
	l, err := failover.New(all, opts...)
	require.NoError(t, err)
	return client, l
}

// Tokens grow from one acquisition to the next, whichever majority grants it.
func TestTokensGrow(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		c := five(w)
		_, a := c.client(t, "A")
		_, b := c.client(t, "B")
		last := int64(0)
		for i := range 50 {
			down := []*sim.Node{c.nodes[i%5], c.nodes[(i*3+1)%5]}
			for _, n := range down {
				n.Crash()
			}
			l := a
			if i%2 == 1 {
				l = b
			}
			waiting, cancel := context.WithTimeout(ctx, time.Minute)
			k, err := l.Lock(waiting, "order:1", lease)
			cancel()
			require.NoError(t, err)
			require.Greater(t, k.Fence(), last)
			last = k.Fence()
			_ = k.Unlock(ctx)
			for _, n := range down {
				n.Restart(true)
			}
			time.Sleep(time.Minute) // virtual: what a node that was down still has ends
		}
	})
}

// F4: a renewal and an Extend are no new acquisition: the token stays.
func TestRenewalKeepsTheToken(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		c := five(w)
		_, a := c.client(t, "A")
		k, err := a.TryLock(ctx, "order:1", lease)
		require.NoError(t, err)
		fence := k.Fence()
		require.NoError(t, k.Extend(ctx, time.Minute))
		w.At(5 * time.Minute)
		require.NoError(t, k.Context().Err())
		require.Equal(t, fence, k.Fence())
		require.NoError(t, k.Unlock(ctx))
	})
}

// A node that granted an acquisition and has granted another since does not vouch for the first one's token.
func TestSecondRoundIsRefusedByWhoeverHasMovedOn(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		c := five(w)
		clientA, a := c.client(t, "A")
		_, b := c.client(t, "B")
		clientA.StopBefore(wire.Named("settle"))
		var err error
		clientA.Do(func() { _, err = a.TryLock(ctx, "order:1", lease) })
		for _, n := range c.nodes {
			n.JumpClock(time.Minute) // all of them end A's key too early
		}
		k, errB := b.TryLock(ctx, "order:1", lease)
		require.NoError(t, errB)
		fence := k.Fence()
		require.NoError(t, k.Unlock(ctx))
		clientA.GoOn()
		w.At(time.Minute)
		require.Error(t, err, "A's grants are gone")
		k, errB = b.TryLock(ctx, "order:1", lease)
		require.NoError(t, errB)
		require.Greater(t, k.Fence(), fence)
		require.NoError(t, k.Unlock(ctx))
	})
}

// Three clients, five nodes, and whatever can go wrong with a minority: requests and replies that are lost, nodes that die and
// come back with their data, keys that end too early, clients that stand still in the middle. No two acquisitions get the
// same token, and one that begins after another is complete gets a larger one.
func TestTokensInAnySchedule(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	if sim.RaceDetector {
		seeds = 5
	}
	if os.Getenv("REDISLOCK_LONG") != "" {
		seeds = 300
	}
	acquired, met := 0, 0
	for seed := range seeds {
		n, m := anySchedule(t, uint64(seed))
		acquired, met = acquired+n, met+m
	}
	t.Logf("%d acquisitions in %d schedules, %d refused", acquired, seeds, met)
	require.Greater(t, acquired, 5*seeds, "too little has happened to prove anything")
	require.Positive(t, met, "nobody met anybody")
}

type acquisition struct {
	began, done time.Duration
	fence       int64
}

func anySchedule(t *testing.T, seed uint64) (acquired, refused int) {
	random := rand.New(rand.NewPCG(seed, 7))
	var mu sync.Mutex // clients run side by side
	var all []acquisition
	sim.Run(t, func(w *sim.World) {
		c := five(w)
		type actor struct {
			client *sim.Client
			locker *failover.Locker
		}
		var actors []actor
		for _, name := range []string{"A", "B", "C"} {
			client, locker := c.client(t, name)
			actors = append(actors, actor{client, locker})
		}
		attempt := func(a actor) {
			began := w.Now()
			k, err := a.locker.TryLock(ctx, "order:1", lease)
			mu.Lock()
			if err != nil {
				refused++
			} else {
				all = append(all, acquisition{began, w.Now(), k.Fence()})
			}
			mu.Unlock()
			_ = k.Unlock(ctx)
		}
		faults := []func(a actor, n *sim.Node){
			func(a actor, _ *sim.Node) {
				a.client.LoseReply(wire.Named("acquire", "settle", "release"), 1+random.IntN(2))
			},
			func(a actor, _ *sim.Node) { a.client.LoseRequest(wire.Named("acquire", "settle", "release"), 1) },
			func(a actor, _ *sim.Node) { a.client.StopBefore(wire.Named("settle")) },
			func(a actor, _ *sim.Node) { a.client.StopAfter(wire.Named("acquire")) },
			func(_ actor, n *sim.Node) { n.JumpClock(time.Duration(random.IntN(60)) * time.Second) },
			func(_ actor, n *sim.Node) { n.Crash() },
		}
		for range 25 {
			minority := random.Perm(5)[:2]
			for range 1 + random.IntN(2) {
				a, n := actors[random.IntN(3)], c.nodes[minority[random.IntN(2)]]
				faults[random.IntN(len(faults))](a, n)
			}
			for _, i := range random.Perm(3)[:1+random.IntN(2)] {
				actors[i].client.Then(func() { attempt(actors[i]) })
				time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
			}
			time.Sleep(time.Duration(random.IntN(20)) * time.Second)
			synctest.Wait()
			for _, a := range actors {
				a.client.GoOn()
			}
			for _, n := range minority {
				c.nodes[n].Restart(true)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
	})
	for i, a := range all {
		for _, b := range all[i+1:] {
			require.NotEqual(t, a.fence, b.fence, "seed %d: %+v and %+v", seed, a, b)
			if a.done < b.began {
				require.Less(t, a.fence, b.fence, "seed %d: %+v, then %+v", seed, a, b)
			}
		}
	}
	return len(all), refused
}
