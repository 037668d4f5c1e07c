package choosing

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

var ctx = context.Background()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tenTry lets ten servers do the same at once, and counts those that succeed.
func tenTry(t *testing.T, start string, try func(rdb redis.UniversalClient) (bool, error)) (succeeded int, left string) {
	t.Helper()
	sim.Run(t, func(w *sim.World) {
		n := w.Node("Redis")
		n.Set("item:7", start, 0)
		results := make(chan bool, 10)
		for i := range 10 {
			c := w.Client(fmt.Sprintf("S%d", i+1), n)
			c.Then(func() {
				ok, err := try(c.Redis())
				results <- ok && err == nil
			})
		}
		w.At(time.Minute)
		for range 10 {
			if <-results {
				succeeded++
			}
		}
		left = n.Value("item:7")
	})
	return succeeded, left
}

// Ten servers sell three items without any lock, and three buyers get one: the condition and the write are one step.
func TestAtomicUpdateNeedsNoLock(t *testing.T) {
	sold, left := tenTry(t, "3", func(rdb redis.UniversalClient) (bool, error) { return sell(ctx, rdb, "item:7") })
	require.Equal(t, 3, sold)
	require.Equal(t, "0", left)
}

// The same with optimistic locking: whoever was overtaken reads again.
func TestOptimisticLockingNeedsNoLock(t *testing.T) {
	sold, left := tenTry(t, "3", func(rdb redis.UniversalClient) (bool, error) {
		return sellOptimistically(ctx, rdb, "item:7")
	})
	require.Equal(t, 3, sold)
	require.Equal(t, "0", left)
}

// A buyer that is overtaken between its read and its write does not overwrite: it starts again and finds nothing left.
func TestOptimisticLockingNoticesThatItWasOvertaken(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		n := w.Node("Redis")
		a, b := w.Client("A", n), w.Client("B", n)
		n.Set("item:7", "1", 0)
		var soldA, soldB bool
		a.StopBefore(wire.Named("MULTI"))
		a.Do(func() { soldA, _ = sellOptimistically(ctx, a.Redis(), "item:7") })
		w.At(time.Second)
		b.Do(func() { soldB, _ = sellOptimistically(ctx, b.Redis(), "item:7") })
		w.At(2 * time.Second)
		a.GoOn()
		w.At(3 * time.Second)
		require.True(t, soldB)
		require.False(t, soldA)
		require.Equal(t, "0", n.Value("item:7"))
	})
}

// Ten servers mark one order as paid. One of them does it, and the others know that it was not they.
func TestStateMachineNeedsNoLock(t *testing.T) {
	moved, state := tenTry(t, "new", func(rdb redis.UniversalClient) (bool, error) {
		return move(ctx, rdb, "item:7", "new", "paid")
	})
	require.Equal(t, 1, moved)
	require.Equal(t, "paid", state)
}

// One payment is sent ten times and counts once: the mark and the effect are one step.
func TestIdempotentPaymentNeedsNoLock(t *testing.T) {
	first, balance := tenTry(t, "100", func(rdb redis.UniversalClient) (bool, error) {
		return pay(ctx, rdb, "item:7", "request:1", 50)
	})
	require.Equal(t, 1, first)
	require.Equal(t, "150", balance)
}

// A TTL of p99 plus half leaves many holders unprotected when work has a long tail, and work has one: timeouts and retries.
func TestTTLFromMeasuredHolds(t *testing.T) {
	holds := measuredHolds()
	at := func(share float64) time.Duration {
		return holds[int(share*float64(len(holds)))].Round(100 * time.Millisecond)
	}
	outlived := func(ttl time.Duration) int {
		first, _ := slices.BinarySearch(holds, ttl)
		return len(holds) - first
	}
	fmt.Fprintf(t.Output(), "%d holds: median %v, p99 %v, p99.9 %v, longest %v\n",
		len(holds), at(0.5), at(0.99), at(0.999), at(0.999999))
	for _, rule := range []struct {
		name string
		ttl  time.Duration
	}{
		{"p99", at(0.99)},
		{"p99 and half of it", at(0.99) * 3 / 2},
		{"three times p99.9", at(0.999) * 3},
	} {
		fmt.Fprintf(t.Output(), "%-20s TTL %-6v outlived by %d\n", rule.name, rule.ttl, outlived(rule.ttl))
	}
	require.Greater(t, outlived(at(0.99)*3/2), 100, "of a hundred thousand")
	require.Zero(t, outlived(at(0.999)*3))
}

// measuredHolds is a hundred thousand holds of a job that takes about a second. In one of 300 cases a call in it runs into
// its timeout of five seconds and is tried again, up to three times.
func measuredHolds() []time.Duration {
	random := rand.New(rand.NewPCG(1, 2))
	holds := make([]time.Duration, 100_000)
	for i := range holds {
		hold := time.Duration(math.Exp(random.NormFloat64()*0.4) * float64(time.Second))
		if random.IntN(300) == 0 {
			hold += time.Duration(1+random.IntN(3)) * 5 * time.Second
		}
		holds[i] = hold
	}
	slices.Sort(holds)
	return holds
}
