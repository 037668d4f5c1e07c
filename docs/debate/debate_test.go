package debate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

var ctx = context.Background()

const key = "lock:item:7"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// holder is a process with a go-redis client of each node. Its name is its token.
type holder struct {
	*sim.Client
	nodes    []redis.UniversalClient
	validity time.Duration // of its last attempt
}

func (h *holder) acquires() { h.Do(func() { h.validity = acquire(ctx, h.nodes, key, h.Name()) }) }

// five is five independent nodes, and two processes that use them.
func five(t *testing.T, happen func(w *sim.World, nodes []*sim.Node, a, b *holder)) {
	t.Helper()
	sim.Run(t, func(w *sim.World) {
		var nodes []*sim.Node
		for i := range 5 {
			nodes = append(nodes, w.Node(fmt.Sprintf("N%d", i+1)))
		}
		once := func(o *redis.Options) { o.MaxRetries = -1 }
		use := func(name string) *holder {
			h := &holder{Client: w.Client(name, nodes[0], once)}
			h.nodes = append(h.nodes, h.Redis())
			for _, n := range nodes[1:] {
				h.nodes = append(h.nodes, h.Connect(n, once))
			}
			return h
		}
		happen(w, nodes, use("A"), use("B"))
	})
}

// A server that comes back empty votes twice. One that stays away until every lease has ended does not.
func TestDelayedRestart(t *testing.T) {
	for _, away := range []time.Duration{time.Second, ttl} {
		five(t, func(w *sim.World, nodes []*sim.Node, a, b *holder) {
			for _, n := range nodes[3:] {
				n.Refuse("LOADING Redis is loading the dataset in memory")
			}
			a.acquires() // on N1, N2 and N3: a bare majority
			require.Positive(t, a.validity)
			for _, n := range nodes[3:] {
				n.Accept()
			}
			w.At(time.Second)
			nodes[2].Crash()
			w.At(time.Second + away)
			nodes[2].Restart(false)
			w.At(2*time.Second + away)
			b.acquires()
			require.Positive(t, b.validity, "N3, N4 and N5 vote for B")
			bothHold := w.Now() < a.validity
			require.Equal(t, away < ttl, bothHold, "away for %v", away)
		})
	}
}

// One clock that jumps forward turns A's third vote into B's.
func TestClockJumpGivesAVoteTwice(t *testing.T) {
	five(t, func(w *sim.World, nodes []*sim.Node, a, b *holder) {
		for _, n := range nodes[3:] {
			n.Refuse("LOADING Redis is loading the dataset in memory")
		}
		a.acquires()
		for _, n := range nodes[3:] {
			n.Accept()
		}
		w.At(time.Second)
		nodes[2].JumpClock(ttl)
		w.At(2 * time.Second)
		b.acquires()
		require.Positive(t, b.validity)
		require.Less(t, w.Now(), a.validity, "A and B hold")
	})
}

// A delay before the last vote is counted, of any length, wherever it comes from: then the lock is not held.
func TestDelayBeforeTheCheckIsNoticed(t *testing.T) {
	five(t, func(w *sim.World, nodes []*sim.Node, a, b *holder) {
		a.StopAfter(wire.Acquires)
		a.acquires()
		w.At(ttl)
		a.GoOn()
		w.At(ttl + time.Second)
		require.Zero(t, a.validity, "five votes, and none of them worth anything")
		w.At(61 * time.Second)
		b.acquires()
		require.Positive(t, b.validity)
	})
}

// A delay after the check is noticed by nobody but a resource that compares: by a number that grows, or by the random token.
func TestWhoRefusesTheLateWrite(t *testing.T) {
	five(t, func(w *sim.World, nodes []*sim.Node, a, b *holder) {
		plain, byNumber, byToken := 100, &counted{value: 100}, &swapped{value: 100}
		a.acquires()
		seen := byToken.begin("A")
		require.Positive(t, a.validity, "A has looked, and is about to write. It is paused")
		w.At(31 * time.Second)
		b.acquires()
		require.Positive(t, b.validity)
		plain-- // B sells one
		require.Equal(t, 99, plain)
		require.NoError(t, byNumber.write(2, 99))
		require.NoError(t, byToken.write("B", byToken.begin("B")-1))
		w.At(61 * time.Second) // A goes on
		plain = seen - 1
		require.Equal(t, 99, plain, "A has sold one too, and the stock does not know")
		require.ErrorIs(t, byNumber.write(1, seen-1), errRefused)
		require.ErrorIs(t, byToken.write("A", seen-1), errRefused)
	})
}
