package failover_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	failover "example.com/redislock/07-failover-demo"
	"example.com/redislock/internal/redistest"
	"example.com/redislock/internal/sim"
)

var names = []string{
	"order:1", "{order}:1", "order:{1}", "{}order", "order{}", "a}b", "}{a}", "{a}{b}", "{a", "a{b", "a{}b}", "{{a}}", "{}{a}", "}", "{", "{}", " ", "ü{é}",
}

// keysOf are the two keys that an acquisition of this name touches, as it sends them.
func keysOf(t *testing.T, rdb *redis.Client, name string) (lock, count string) {
	t.Helper()
	var words []any
	rdb.AddHook(keepFirst(&words))
	locks, err := failover.New([]redis.UniversalClient{rdb}, patient)
	require.NoError(t, err)
	k, err := locks.TryLock(ctx, name, lease)
	require.NoError(t, err)
	require.NoError(t, k.Unlock(ctx))
	return words[3].(string), words[4].(string)
}

// slotOf follows the specification of Redis Cluster, and divides polynomials instead of shifting bytes.
func slotOf(key string) int64 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1:][:length]
		}
	}
	rest := new(big.Int).SetBytes(append([]byte(key), 0, 0))
	for n := rest.BitLen(); n > 16; n = rest.BitLen() {
		rest.Xor(rest, new(big.Int).Lsh(big.NewInt(0x11021), uint(n-17)))
	}
	return rest.Int64() % 16384
}

// The lock and its count fall into one slot of a cluster, whatever braces the name has, and no two names share a count.
func TestLockAndCountShareASlot(t *testing.T) {
	require.Equal(t, int64(12739), slotOf("123456789"), "the check value of CRC16 XMODEM")
	server := miniredis.RunT(t)
	seen := map[string]bool{}
	for _, name := range names {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
		lock, count := keysOf(t, rdb, name)
		require.NoError(t, rdb.Close())
		require.Equal(t, "lock:"+name, lock)
		require.Equal(t, slotOf(lock), slotOf(count), "%s and %s", lock, count)
		require.NotContains(t, seen, count)
		seen[lock], seen[count] = true, true
	}
}

// A real server in cluster mode says the same of both keys.
func TestLockAndCountShareASlotOnARealServer(t *testing.T) {
	cluster := redistest.Start(t, "--cluster-enabled", "yes").Client(t)
	server := miniredis.RunT(t)
	for _, name := range names {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
		lock, count := keysOf(t, rdb, name)
		require.NoError(t, rdb.Close())
		want, err := cluster.ClusterKeySlot(ctx, lock).Result()
		require.NoError(t, err)
		got, err := cluster.ClusterKeySlot(ctx, count).Result()
		require.NoError(t, err)
		require.Equal(t, want, got, "%s and %s", lock, count)
		require.Equal(t, want, slotOf(lock))
	}
}

// F3: the count has no TTL, and outlives the Unlock and the end of a lease.
func TestCountStays(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		c := five(w)
		client, a := c.client(t, "A")
		var err error
		client.Do(func() {
			var k *failover.Lock
			if k, err = a.TryLock(ctx, "order:1", lease); err == nil {
				err = k.Unlock(ctx)
			}
		})
		require.NoError(t, err)
		w.At(time.Minute)
		client.Do(func() { _, err = a.TryLock(ctx, "order:1", lease) })
		require.NoError(t, err)
		client.Crash()
		w.At(24 * time.Hour)
		for i, n := range c.nodes {
			require.Empty(t, n.Value("lock:order:1"))
			require.Equal(t, "2", n.Value(counts), fmt.Sprintf("N%d", i+1))
			require.Equal(t, sim.Forever, n.TTL(counts))
		}
	})
}
