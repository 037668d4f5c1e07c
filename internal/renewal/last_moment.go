package renewal

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
)

// lastMoment is a Redis that says yes to everything, and grants a lock as late as it can: answer after answer it finds the
// moment when the lease ends.
type lastMoment struct {
	granted func(token any) any
	wait    atomic.Int64
}

func (m *lastMoment) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *lastMoment) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (m *lastMoment) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		answer, asked := any(int64(1)), time.Now()
		if strings.HasPrefix(cmd.Args()[1].(string), "-- acquire") {
			answer = m.granted(cmd.Args()[3+cmd.Args()[2].(int)])
			for time.Since(asked) < time.Duration(m.wait.Load()) { // a sleep would not be exact enough
			}
		}
		cmd.(interface{ SetVal(any) }).SetVal(answer)
		return nil
	}
}

// A grant that comes at the last moment is refused, or its lease ends at once. The timer that ends it may fire while
// the lease is still being made. That takes luck, and a real clock: a bubble's stands still meanwhile.
func grantAtTheLastMoment(t *testing.T, ch chapter) {
	attempts := 200
	if os.Getenv("REDISLOCK_LONG") != "" {
		attempts = 10_000
	}
	const ttl = 3 * time.Millisecond
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			m := &lastMoment{granted: ch.granted}
			m.wait.Store(int64(900 * time.Microsecond))
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // never dialled
			rdb.AddHook(m)
			locker := ch.New(rdb, Options{RenewEvery: 5 * time.Microsecond, RequestTimeout: 960 * time.Microsecond})
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
