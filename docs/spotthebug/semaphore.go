package spotthebug

import (
	"context"
	"fmt"
	"math/rand/v2"

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
		place = fmt.Sprintf("%s:%d", pool, (first+i)%n)
		if ok, err := take(ctx, rdb, place, token); ok || err != nil {
			return place, err
		}
	}
	return "", errTaken
}

// enterAlone takes all n places, as a writer does who can have no reader beside it, or none of them.
func enterAlone(ctx context.Context, rdb redis.UniversalClient, pool string, n int, token string) error {
	for i := range n {
		ok, err := take(ctx, rdb, fmt.Sprintf("%s:%d", pool, i), token)
		if err == nil && ok {
			continue
		}
		if err == nil {
			err = errTaken
		}
		for ; i >= 0; i-- { // also the one whose outcome is unknown
			_ = release(context.WithoutCancel(ctx), rdb, fmt.Sprintf("%s:%d", pool, i), token)
		}
		return err
	}
	return nil
}
