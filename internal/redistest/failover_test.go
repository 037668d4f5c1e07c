package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A primary that dies while its replica is cut off takes with it what it has acknowledged. What was written before
// the cut survives, and a client that asks the Sentinels finds both out by itself.
func TestAcknowledgedWriteIsLostInAFailover(t *testing.T) {
	ctx := t.Context()
	g := StartGroup(t)
	c := g.Client(t)
	require.NoError(t, c.Set(ctx, "before", "1", 0).Err())
	replica := g.Replica.Client(t)
	require.Eventually(t, func() bool { return replica.Get(ctx, "before").Val() == "1" }, patience, pollEach)

	g.CutReplication()
	require.NoError(t, c.Set(ctx, "after", "1", 0).Err())
	g.LosePrimary()

	require.Eventually(t, func() bool { return c.Set(ctx, "new", "1", 0).Err() == nil }, patience, pollEach)
	require.Equal(t, "1", c.Get(ctx, "before").Val())
	require.ErrorIs(t, c.Get(ctx, "after").Err(), redis.Nil)
	require.Equal(t, "1", replica.Get(ctx, "new").Val(), "it is the replica that answers")
}
