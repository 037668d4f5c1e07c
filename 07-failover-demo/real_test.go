package failover_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	failover "example.com/redislock/07-failover-demo"
	"example.com/redislock/internal/redistest"
)

// Two holders race a thousand times on a real server. Whoever is older never has the last word.
func TestGuardInARaceOnARealServer(t *testing.T) {
	server := redistest.Start(t)
	older, newer := failover.NewGuard(server.Client(t)), failover.NewGuard(server.Client(t))
	for i := range 1000 {
		key := fmt.Sprint("stock", i)
		var errOld, errNew error
		var both sync.WaitGroup
		both.Go(func() { errOld = older.Write(ctx, key, "old", 1) })
		both.Go(func() { errNew = newer.Write(ctx, key, "new", 2) })
		both.Wait()
		if errOld != nil {
			require.ErrorIs(t, errOld, failover.ErrStale)
		}
		require.NoError(t, errNew)
		value, err := newer.Read(ctx, key, 2)
		require.NoError(t, err)
		require.Equal(t, "new", value)
	}
}
