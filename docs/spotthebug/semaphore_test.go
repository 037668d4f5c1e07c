package spotthebug

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// Three may be inside, and three die there. A counter remembers them for ever; places that are locks end with their TTL.
func TestCounterOfHoldersForgetsNobody(t *testing.T) {
	inside := func(enters func(rdb redis.UniversalClient) bool) (atOnce, anHourLater int) {
		sim.Run(t, func(w *sim.World) {
			n := w.Node("Redis")
			arrive := func(name string) (in int) {
				c := w.Client(name, n, once)
				c.Do(func() {
					if enters(c.Redis()) {
						in = 1
					}
				})
				c.Crash()
				return in
			}
			for i := range 10 {
				atOnce += arrive(fmt.Sprintf("A%d", i+1))
			}
			w.At(time.Hour)
			for i := range 10 {
				anHourLater += arrive(fmt.Sprintf("B%d", i+1))
			}
		})
		return atOnce, anHourLater
	}
	atOnce, anHourLater := inside(func(rdb redis.UniversalClient) bool {
		ok, err := enter(ctx, rdb, "lock:pool", 3)
		return ok && err == nil
	})
	require.Equal(t, 3, atOnce, "so far it looks right")
	require.Zero(t, anHourLater, "the slip: nobody is inside, and nobody gets in")

	atOnce, anHourLater = inside(func(rdb redis.UniversalClient) bool {
		_, err := enterMended(ctx, rdb, "lock:pool", 3, newToken())
		return err == nil
	})
	require.Equal(t, 3, atOnce, "mended: three of ten")
	require.Equal(t, 3, anHourLater, "mended: their places are free again")
}

// A leave too many makes room that is not there: a counter does not know whose place it gives back.
func TestCounterOfHoldersIsGivenTooMuch(t *testing.T) {
	pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
		for range 3 {
			a.Do(func() {
				ok, _ := enter(ctx, a.Redis(), "lock:pool", 3)
				require.True(t, ok)
			})
		}
		b.Do(func() {
			require.NoError(t, leave(ctx, b.Redis(), "lock:pool"), "B never was inside")
			ok, _ := enter(ctx, b.Redis(), "lock:pool", 3)
			require.True(t, ok, "the slip: four are inside")
		})
	})
	pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
		for range 3 {
			a.Do(func() {
				_, err := enterMended(ctx, a.Redis(), "lock:pool", 3, newToken())
				require.NoError(t, err)
			})
		}
		b.Do(func() {
			for i := range 3 {
				require.ErrorIs(t, release(ctx, b.Redis(), placeOf("lock:pool", i), newToken()), errStolen, "mended: it is not B's")
			}
			_, err := enterMended(ctx, b.Redis(), "lock:pool", 3, newToken())
			require.ErrorIs(t, err, errTaken, "mended")
		})
	})
}

// A TTL on the counter ends the count of those who are still inside, and their leaves then make room that is not there.
func TestCounterOfHoldersWithATTL(t *testing.T) {
	pair(t, func(w *sim.World, n *sim.Node, a, b *sim.Client) {
		enters := func(c *sim.Client) (ok bool) {
			c.Do(func() {
				ok, _ = enter(ctx, c.Redis(), "lock:pool", 3)
				require.NoError(t, c.Redis().Expire(ctx, "lock:pool", ttl).Err())
			})
			return ok
		}
		for range 3 {
			require.True(t, enters(a))
		}
		require.False(t, enters(b), "so far it looks right")
		w.At(ttl + time.Second)
		require.True(t, enters(b), "the slip: A's three are forgotten at once, and four are inside")
		for range 3 {
			a.Do(func() { require.NoError(t, leave(ctx, a.Redis(), "lock:pool")) })
		}
		for range 5 {
			require.True(t, enters(b), "the slip: six are inside, since B's first is no longer counted, nor are two more")
		}
		require.False(t, enters(b))
	})
}

// A reader takes one place and a writer takes all: no writer beside a reader, and nobody beside a writer. A writer who is
// refused gives back what it has taken, and a lost reply leaves nothing behind.
func TestWriterTakesEveryPlace(t *testing.T) {
	pair(t, func(w *sim.World, n *sim.Node, reader, writer *sim.Client) {
		const last = "lock:page:2" // the writer has taken two places when it comes to this one
		token := newToken()
		reads := func() (err error) {
			reader.Do(func() { _, err = enterMended(ctx, reader.Redis(), "lock:page", 3, newToken()) })
			return err
		}
		writes := func() (err error) {
			writer.Do(func() { err = enterAlone(ctx, writer.Redis(), "lock:page", 3, newToken()) })
			return err
		}
		reader.Do(func() {
			ok, err := take(ctx, reader.Redis(), last, token)
			require.True(t, ok && err == nil)
		})
		require.ErrorIs(t, writes(), errTaken, "a reader is inside")
		for range 2 {
			require.NoError(t, reads(), "the writer that was refused has left no place taken")
		}
		w.At(10 * time.Second)
		reader.Do(func() { require.NoError(t, release(ctx, reader.Redis(), last, token)) })
		require.ErrorIs(t, writes(), errTaken, "two readers are left")

		w.At(ttl + 11*time.Second) // they have died
		reader.LoseReply(wire.Named("SET"), 1)
		writer.LoseReply(wire.Named("SET"), 1)
		for name, enters := range map[string]func() error{"reader": reads, "writer": writes} {
			err := enters()
			require.Error(t, err, name)
			require.NotErrorIs(t, err, errTaken, name)
			for i := range 3 {
				require.Empty(t, n.Value(placeOf("lock:page", i)), "%s: the place was taken, and only the reply was lost", name)
			}
		}
		require.NoError(t, writes())
		require.ErrorIs(t, reads(), errTaken, "the writer is alone")
		require.ErrorIs(t, writes(), errTaken)
	})
}

// The writer's time is up when it has taken the first place. It gives back on a context of its own.
func TestWriterOutOfTimeLeavesNothing(t *testing.T) {
	pair(t, func(w *sim.World, n *sim.Node, a, _ *sim.Client) {
		c, cancel := context.WithCancel(ctx)
		var err error
		a.StopAfter(wire.Named("SET"))
		a.Do(func() { err = enterAlone(c, a.Redis(), "lock:page", 3, newToken()) })
		require.NotEmpty(t, n.Value("lock:page:0"), "it has taken this one")
		cancel()
		a.GoOn()
		w.At(time.Second)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, n.Value("lock:page:0"))
	})
}

// Readers who come before the last one has left keep a writer out for as long as they come. No one of them stays long.
func TestReadersStarveTheWriter(t *testing.T) {
	pair(t, func(w *sim.World, n *sim.Node, reader, writer *sim.Client) {
		var place, token string
		for second := range 60 {
			w.At(time.Duration(second) * time.Second)
			before, its := place, token
			token = newToken()
			reader.Do(func() {
				var err error
				place, err = enterMended(ctx, reader.Redis(), "lock:page", 3, token)
				require.NoError(t, err)
				if before != "" {
					require.NoError(t, release(ctx, reader.Redis(), before, its), "a second later")
				}
			})
			writer.Do(func() {
				err := enterAlone(ctx, writer.Redis(), "lock:page", 3, newToken())
				require.ErrorIs(t, err, errTaken)
			})
		}
	})
}
