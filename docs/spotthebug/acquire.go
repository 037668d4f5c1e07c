package spotthebug

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// takeLock takes the lock for 30 seconds, if it is free.
func takeLock(ctx context.Context, rdb redis.UniversalClient, key, token string) (bool, error) {
	ttl := 30 * time.Second
	err := rdb.Do(ctx, "SET", key, token, "NX", "EX", ttl.Milliseconds()).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

// tryFor asks for the lock every 100 ms, for as long as the caller is willing to wait.
func tryFor(ctx context.Context, rdb redis.UniversalClient, key, token string, wait time.Duration) (bool, error) {
	start := time.Now()
	for time.Since(start) < wait {
		if ok, err := take(ctx, rdb, key, token); ok || err != nil {
			return ok, err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false, nil
}

// tryForMended asks first and looks at the time afterwards.
func tryForMended(ctx context.Context, rdb redis.UniversalClient, key, token string, wait time.Duration) (bool, error) {
	start := time.Now()
	for {
		if ok, err := take(ctx, rdb, key, token); ok || err != nil {
			return ok, err
		}
		if time.Since(start) >= wait {
			return false, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// lockWithRetries returns nil when the lock is ours.
func lockWithRetries(ctx context.Context, rdb redis.UniversalClient, key, token string, retries int) error {
	var err error
	for i := 0; i < retries; i++ {
		var ok bool
		if ok, err = take(ctx, rdb, key, token); ok {
			return nil
		}
		if err == nil {
			err = errTaken
		}
	}
	return err
}

// lockWithRetriesMended makes one attempt and then the retries, and says nil in one place only.
func lockWithRetriesMended(ctx context.Context, rdb redis.UniversalClient, key, token string, retries int) error {
	for i := 0; ; i++ {
		ok, err := take(ctx, rdb, key, token)
		if ok {
			return nil
		}
		if i >= retries {
			return errors.Join(errTaken, err)
		}
	}
}

// lockOrder is what the shop calls, and lockOrderForBatch is what the nightly batch calls.
func lockOrder(ctx context.Context, rdb redis.UniversalClient, id, token string) (bool, error) {
	return take(ctx, rdb, "lock:"+id, token)
}

func lockOrderForBatch(ctx context.Context, rdb redis.UniversalClient, id, token string) (bool, error) {
	return take(ctx, rdb, id, token)
}

// orderKey is the one place that knows where an order's lock is kept.
func orderKey(id string) string { return "lock:" + id }

func lockOrderMended(ctx context.Context, rdb redis.UniversalClient, id, token string) (bool, error) {
	return take(ctx, rdb, orderKey(id), token)
}
