package watchdog_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	watchdog "example.com/redislock/04-watchdog"
)

// lastMoment is a Redis that says yes to everything, and grants a lock as late as it can: answer after answer it finds the
// moment when the lease ends.
type lastMoment struct{ wait atomic.Int64 }

func (m *lastMoment) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *lastMoment) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (m *lastMoment) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		answer, asked := any(int64(1)), time.Now()
		if strings.HasPrefix(cmd.Args()[1].(string), "-- acquire") {
			answer = "OK"
			for time.Since(asked) < time.Duration(m.wait.Load()) { // a sleep would not be exact enough
			}
		}
		cmd.(interface{ SetVal(any) }).SetVal(answer)
		return nil
	}
}

// W3: a grant that comes at the last moment is refused, or its lease ends at once. The timer that ends it may fire while
// the lease is still being made. That takes luck, and a real clock: a bubble's stands still meanwhile.
func TestGrantAtTheLastMoment(t *testing.T) {
	attempts := 200
	if os.Getenv("REDISLOCK_LONG") != "" {
		attempts = 10_000
	}
	const ttl = 3 * time.Millisecond
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			m := &lastMoment{}
			m.wait.Store(int64(900 * time.Microsecond))
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // never dialled
			rdb.AddHook(m)
			locker := watchdog.New(rdb, watchdog.WithRenewEvery(5*time.Microsecond), watchdog.WithRequestTimeout(960*time.Microsecond))
			for range attempts / 4 {
				k, err := locker.TryLock(ctx, "order:1", ttl)
				if err != nil {
					m.wait.Add(-150)
					continue
				}
				m.wait.Add(50)
				_ = k.Unlock(ctx)
			}
			_ = rdb.Close()
		})
	}
	all.Wait()
	require.False(t, t.Failed())
}
