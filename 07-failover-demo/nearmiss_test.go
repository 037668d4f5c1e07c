package failover_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	failover "example.com/redislock/07-failover-demo"
	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// Ways to make a token that look right. Each test here is a schedule in which one of them gives a token twice, or a later
// acquisition a smaller one. The README's "Break it yourself" makes the changes.

const counts = "fence:{lock:order:1}"

// patient lets a client that stands still for a moment in the middle of an attempt go on with it.
var patient = failover.WithRequestTimeout(10 * time.Second)

// shared is where the two majorities in these schedules meet: A has N1, N2 and N3, and B has N3, N4 and N5. N1 and N4 have
// counted further than the others, so both get the token 5. A stands still between its rounds, and N3 ends its key too early.
type shared struct {
	*cast
	clientA *sim.Client
	copy    []any // of A's first request to N3

	tokenA, tokenB int64
	errA           error
}

func meetAtN3(t *testing.T, w *sim.World) *shared {
	s := &shared{cast: five(w)}
	n1, n3, n4, n5 := s.nodes[0], s.nodes[2], s.nodes[3], s.nodes[4]
	n1.Set(counts, "4", 0)
	n4.Set(counts, "4", 0)
	n4.Crash()
	n5.Crash()
	client, locker := s.client(t, "A", patient)
	s.clientA = client
	s.last[2].AddHook(keepFirst(&s.copy)) // A's connection to N3
	client.StopBefore(wire.Named("settle"))
	client.Do(func() {
		var k *failover.Lock
		if k, s.errA = locker.TryLock(ctx, "order:1", lease); s.errA == nil {
			s.tokenA = k.Fence()
			_ = k.Unlock(ctx)
		}
	})
	n3.JumpClock(time.Minute)
	n4.Restart(true)
	n5.Restart(true)
	_, b := s.client(t, "B", patient)
	k, err := b.TryLock(ctx, "order:1", lease)
	require.NoError(t, err)
	s.tokenB = k.Fence()
	require.Equal(t, int64(5), s.tokenB)
	require.NoError(t, k.Unlock(ctx))
	return s
}

// goOn lets A finish its second round, with the token 5 that B has had. N3 must not vouch for it.
func (s *shared) goOn(t *testing.T) {
	s.clientA.GoOn()
	s.At(s.Now() + time.Minute)
	require.NotEqual(t, s.tokenB, s.tokenA, "A and B both got in, with one token")
	require.ErrorIs(t, s.errA, failover.ErrNotAcquired)
}

// onWay is what happens to a client's requests on their way to one node.
type onWay func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error

func (f onWay) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f onWay) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f onWay) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return f(ctx, cmd, next) }
}

// keepFirst keeps a copy of the first request.
func keepFirst(words *[]any) onWay {
	return func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if *words == nil {
			*words = cmd.Args()
		}
		return next(ctx, cmd)
	}
}

// Near miss: the second round doesn't ask whose the key is. N3 has ended A's key and granted B the lock since, and its
// count is B's token.
func TestSecondRoundAsksWhoseTheKeyIs(t *testing.T) {
	sim.Run(t, func(w *sim.World) { meetAtN3(t, w).goOn(t) })
}

// Near miss: write-back by plain maximum. A second copy of A's first request reaches N3 after B has gone. The key
// is A's again, and the count is larger than A's token.
func TestSecondRoundAsksWhatTheCountIs(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		s := meetAtN3(t, w)
		n3 := s.nodes[2]
		network := w.Client("network", n3)
		require.NoError(t, network.Redis().Do(ctx, s.copy...).Err())
		require.Equal(t, "6", n3.Value(counts))
		s.goOn(t)
	})
}

// Near miss: nodes outside the grant set vouch. A has its grants from N1, N2 and N3, and N3 never hears of the second round. N4
// and N5 have refused A. With their voices A would be in with 5, and the next one, on N3, N4 and N5, with 2.
func TestOnlyThoseWhoGrantedVouch(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		c := five(w)
		c.nodes[0].Set(counts, "4", 0)
		c.nodes[3].Set("lock:order:1", "somebody", time.Minute)
		c.nodes[4].Set("lock:order:1", "somebody", time.Minute)
		_, a := c.client(t, "A", patient)
		for i, rdb := range c.last[:3] {
			rdb.AddHook(onWay(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
				time.Sleep(time.Millisecond) // virtual: N4 and N5 have answered first
				if strings.HasPrefix(fmt.Sprint(cmd.Args()[1]), "-- settle") && i == 2 {
					cmd.SetErr(io.EOF)
					return io.EOF
				}
				return next(ctx, cmd)
			}))
		}
		_, err := a.TryLock(ctx, "order:1", lease)
		require.Error(t, err, "two of five have taken the token")
	})
}

// Near miss: no write-back. A has N1, N2 and N3, and B after it N3, N4 and N5. Only N1 has counted to 5, and B never asks N1.
func TestTokenIsWrittenBack(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		c := five(w)
		c.nodes[0].Set(counts, "4", 0)
		_, a := c.client(t, "A")
		_, b := c.client(t, "B")
		take := func(l *failover.Locker, down ...int) int64 {
			for _, i := range down {
				c.nodes[i].Crash()
			}
			k, err := l.TryLock(ctx, "order:1", lease)
			require.NoError(t, err)
			_ = k.Unlock(ctx)
			for _, i := range down {
				c.nodes[i].Restart(true)
			}
			w.At(w.Now() + time.Minute)
			return k.Fence()
		}
		require.Equal(t, int64(5), take(a, 3, 4))
		require.Equal(t, int64(6), take(b, 0, 1))
	})
}

// Near miss: the token is the first grant's count, or any. N3 has counted to 5, and would refuse a smaller one; N4 and N5 are down.
func TestTokenIsTheLargestCount(t *testing.T) {
	for behind := range 3 {
		sim.Run(t, func(w *sim.World) {
			c := five(w)
			c.nodes[behind].Set(counts, "4", 0)
			c.nodes[3].Crash()
			c.nodes[4].Crash()
			_, a := c.client(t, "A")
			k, err := a.TryLock(ctx, "order:1", lease)
			require.NoError(t, err)
			require.Equal(t, int64(5), k.Fence())
			require.NoError(t, k.Unlock(ctx))
		})
	}
}

// Near miss: a quorum one short. A reaches N1 and N2, B the other three. Two of five would be as good as three, and both get 1.
func TestTwoOfFiveAreNoMajority(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		c := five(w)
		_, a := c.client(t, "A")
		_, b := c.client(t, "B")
		for _, n := range c.nodes[2:] {
			n.Crash()
		}
		_, err := a.TryLock(ctx, "order:1", lease)
		require.Error(t, err)
		for i, n := range c.nodes {
			if i < 2 {
				n.Crash()
			} else {
				n.Restart(true)
			}
		}
		k, err := b.TryLock(ctx, "order:1", lease)
		require.NoError(t, err)
		require.Equal(t, int64(1), k.Fence())
		require.NoError(t, k.Unlock(ctx))
	})
}
