package watchdog_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	watchdog "example.com/redislock/04-watchdog"
	"example.com/redislock/internal/redistest"
)

// A ring is not one Redis: when a server dies, go-redis asks another for its keys. The next one gets in at once, although the
// server that died has lost nothing, and the holder learns it a renewal later.
func TestRingAsksAnotherServer(t *testing.T) {
	servers := map[string]*redistest.Server{"a": redistest.Start(t), "b": redistest.Start(t)}
	ring := redis.NewRing(&redis.RingOptions{
		Addrs:              map[string]string{"a": servers["a"].Addr(), "b": servers["b"].Addr()},
		HeartbeatFrequency: 50 * time.Millisecond,
	})
	defer func() { require.NoError(t, ring.Close()) }()
	locker := watchdog.New(ring)
	first, err := locker.TryLock(ctx, "order:1", time.Minute)
	require.NoError(t, err)
	for _, server := range servers {
		if server.Client(t).Exists(ctx, at).Val() == 1 {
			server.Kill()
		}
	}
	waiting, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var second *watchdog.Lock
	require.Eventually(t, func() bool {
		second, err = locker.TryLock(waiting, "order:1", time.Minute)
		return err == nil
	}, 20*time.Second, 50*time.Millisecond)
	require.NoError(t, first.Context().Err(), "both are inside")
	require.ErrorIs(t, first.Unlock(ctx), watchdog.ErrStolen)
	require.NoError(t, second.Unlock(ctx))
}
