package spotthebug

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// enter lets in up to n at once. Whoever has been let in calls leave at the end, and makes room for the next.
func enter(ctx context.Context, rdb redis.UniversalClient, pool string, n int64) (bool, error) {
	inside, err := rdb.Incr(ctx, pool).Result()
	if err != nil || inside <= n {
		return err == nil, err
	}
	return false, leave(ctx, rdb, pool)
}

func leave(ctx context.Context, rdb redis.UniversalClient, pool string) error {
	return rdb.Decr(ctx, pool).Err()
}

// enterMended takes one of n places. Each is a lock with a token and an end of its own, and is released as such.
func enterMended(ctx context.Context, rdb redis.UniversalClient, pool string, n int, token string) (place string, err error) {
	first := rand.IntN(n) // so that not all ask for the same place first
	for i := range n {
		place := placeOf(pool, (first+i)%n)
		ok, err := take(ctx, rdb, place, token)
		if err != nil {
			giveBack(ctx, rdb, place, token) // it may be ours: only the reply may be lost
			return "", err
		}
		if ok {
			return place, nil
		}
	}
	return "", errTaken
}

// enterAlone takes all n places, as a writer does who can have no reader beside it, or none of them.
func enterAlone(ctx context.Context, rdb redis.UniversalClient, pool string, n int, token string) error {
	for i := range n {
		ok, err := take(ctx, rdb, placeOf(pool, i), token)
		if ok {
			continue
		}
		for ; i >= 0; i-- { // this one too: only the reply may be lost
			giveBack(ctx, rdb, placeOf(pool, i), token)
		}
		if err == nil {
			err = errTaken
		}
		return err
	}
	return nil
}

func placeOf(pool string, i int) string { return fmt.Sprintf("%s:%d", pool, i) }

// giveBack releases on a context of its own: the caller's has often ended just now.
func giveBack(ctx context.Context, rdb redis.UniversalClient, place, token string) {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), 50*time.Millisecond)
	defer cancel()
	_ = release(own, rdb, place, token)
}
