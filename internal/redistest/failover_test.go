package redistest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// F1: a primary that dies while its replica is cut off takes with it what it has acknowledged. What was written before
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

// A cut link swallows what is written, and the primary believes that its replica is there.
func TestCutLinkLooksWell(t *testing.T) {
	ctx := t.Context()
	primary := Start(t, "--repl-diskless-sync-delay", "0")
	link := NewLink(t, primary.Addr())
	replica := Start(t, link.ReplicaOf()...).Client(t)
	c := primary.Client(t)
	arrives := func(key string) func() bool {
		return func() bool { return c.Set(ctx, key, "1", 0).Err() == nil && replica.Exists(ctx, key).Val() == 1 }
	}
	require.Eventually(t, arrives("before"), patience, pollEach)

	link.Cut()
	require.NoError(t, c.Set(ctx, "after", "1", 0).Err())
	require.Zero(t, c.Wait(ctx, 1, 100*time.Millisecond).Val(), "the replica doesn't confirm it")
	require.Contains(t, c.Info(ctx, "replication").Val(), "connected_slaves:1")
	require.ErrorIs(t, replica.Get(ctx, "after").Err(), redis.Nil)
}
