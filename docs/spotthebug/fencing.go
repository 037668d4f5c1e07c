package spotthebug

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var errStale = errors.New("a newer holder has written")

// store is what the lock protects. It refuses whoever has the wrong token.
type store struct {
	mu    sync.Mutex
	token int64
	value string
}

func (s *store) write(token int64, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != 0 && token != s.token {
		return errStale
	}
	s.token, s.value = token, value
	return nil
}

// writeMended refuses smaller tokens. An equal one is the same holder's next write.
func (s *store) writeMended(token int64, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.token {
		return errStale
	}
	s.token, s.value = token, value
	return nil
}

// nextToken gives each holder a number larger than all before. Counters that nobody uses go away after a day.
func nextToken(ctx context.Context, rdb redis.UniversalClient, key string) (int64, error) {
	pipe := rdb.TxPipeline()
	next := pipe.Incr(ctx, "fence:"+key)
	pipe.Expire(ctx, "fence:"+key, 24*time.Hour)
	_, err := pipe.Exec(ctx)
	return next.Val(), err
}

// nextTokenMended never forgets how far it has counted.
func nextTokenMended(ctx context.Context, rdb redis.UniversalClient, key string) (int64, error) {
	return rdb.Incr(ctx, "fence:"+key).Result()
}
