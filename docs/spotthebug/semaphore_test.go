package spotthebug

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
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
				place := fmt.Sprintf("lock:pool:%d", i)
				require.ErrorIs(t, release(ctx, b.Redis(), place, newToken()), errStolen, "mended: it is not B's")
			}
			_, err := enterMended(ctx, b.Redis(), "lock:pool", 3, newToken())
			require.ErrorIs(t, err, errTaken, "mended")
		})
	})
}

// A reader takes one place and a writer takes all: no writer beside a reader, and nobody beside a writer.
func TestWriterTakesEveryPlace(t *testing.T) {
	pair(t, func(w *sim.World, n *sim.Node, reader, writer *sim.Client) {
		reads := func() (place, token string, err error) {
			token = newToken()
			reader.Do(func() { place, err = enterMended(ctx, reader.Redis(), "lock:page", 3, token) })
			return place, token, err
		}
		writes := func() (err error) {
			writer.Do(func() { err = enterAlone(ctx, writer.Redis(), "lock:page", 3, newToken()) })
			return err
		}
		place, token, err := reads()
		require.NoError(t, err)
		require.ErrorIs(t, writes(), errTaken, "a reader is inside")
		for range 2 {
			_, _, err = reads()
			require.NoError(t, err, "the writer that was refused has left no place taken")
		}
		w.At(10 * time.Second)
		reader.Do(func() { require.NoError(t, release(ctx, reader.Redis(), place, token)) })
		require.ErrorIs(t, writes(), errTaken, "two readers are left")

		w.At(31 * time.Second) // they have died
		require.NoError(t, writes())
		_, _, err = reads()
		require.ErrorIs(t, err, errTaken, "the writer is alone")
		require.ErrorIs(t, writes(), errTaken)
	})
}
