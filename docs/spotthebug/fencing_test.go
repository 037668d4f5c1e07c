package spotthebug

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
)

// A check by equality refuses the stale writer, and every newer one too. It takes three writers to see it.
func TestFencingByEquality(t *testing.T) {
	s := &store{}
	require.NoError(t, s.write(33, "old"))
	require.ErrorIs(t, s.write(32, "stale"), errStale, "so far it looks right")
	require.ErrorIs(t, s.write(34, "new"), errStale, "the slip: the rightful holder is refused, for ever")

	s = &store{}
	require.NoError(t, s.writeMended(33, "old"))
	require.NoError(t, s.writeMended(34, "new"), "mended")
	require.NoError(t, s.writeMended(34, "new, once more"), "mended: an equal token is the same holder")
	require.ErrorIs(t, s.writeMended(33, "stale"), errStale, "mended")
	require.NoError(t, s.writeMended(35, "newer"), "mended")
}

// A counter with a TTL starts again at 1 after a quiet day, and the resource refuses everybody.
func TestFencingCounterExpires(t *testing.T) {
	afterAQuietDay := func(next func(context.Context, redis.UniversalClient, string) (int64, error)) (err error) {
		pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
			s := &store{}
			for range 3 {
				a.Do(func() {
					token, _ := next(ctx, a.Redis(), "order:1")
					require.NoError(t, s.writeMended(token, "friday"))
				})
			}
			w.At(25 * time.Hour)
			b.Do(func() {
				token, _ := next(ctx, b.Redis(), "order:1")
				err = s.writeMended(token, "monday")
			})
		})
		return err
	}
	require.ErrorIs(t, afterAQuietDay(nextToken), errStale, "the slip")
	require.NoError(t, afterAQuietDay(nextTokenMended), "mended")
}
