package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	watchdog "example.com/redislock/04-watchdog"
)

// A report takes as long as it takes. The lease is short, so that a crash blocks nobody for long, and is renewed while the
// work goes on. The work runs under the lease's context and stops when the lease can't be guaranteed any more.
func ExampleLocker_Do() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	locks := watchdog.New(rdb, watchdog.WithMaxHold(time.Hour))

	err = locks.Do(context.Background(), "report:2026-11", 30*time.Second, func(ctx context.Context) error {
		if ctx.Err() != nil {
			return context.Cause(ctx) // somebody else may be at work by now
		}
		fmt.Println("the report is written by one process")
		return nil
	})
	fmt.Println(err)

	err = locks.Do(context.Background(), "report:2026-12", 30*time.Second, func(ctx context.Context) error {
		server.Del("lock:report:2026-12") // an operator tidies up
		return nil
	})
	fmt.Println(errors.Is(err, watchdog.ErrExpired))
	// Output:
	// the report is written by one process
	// <nil>
	// true
}
