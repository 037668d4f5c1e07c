// Package killed_test kills the real servers that count. It stands apart from the lock's own tests because those say exactly what
// fails after a change, with and without a redis-server.
package killed_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	failover "example.com/redislock/07-failover-demo"
	"example.com/redislock/internal/redistest"
)

// F3: real servers that write each count to disk before they answer: tokens grow while one after the other is killed and comes back.
func TestTokensGrowOverKilledServers(t *testing.T) {
	var servers []*redistest.Server
	var nodes []redis.UniversalClient
	for range 3 {
		server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
		servers, nodes = append(servers, server), append(nodes, server.Client(t))
	}
	locks, err := failover.New(nodes, failover.WithRequestTimeout(2*time.Second))
	require.NoError(t, err)
	last := int64(0)
	take := func() {
		waiting, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		k, err := locks.Lock(waiting, "order:1", 10*time.Second)
		require.NoError(t, err)
		require.Greater(t, k.Fence(), last)
		last = k.Fence()
		require.NoError(t, k.Unlock(t.Context()))
	}
	for _, server := range servers {
		take()
		server.Kill()
		take()
		take()
		server.Restart(t)
		take()
	}
}
