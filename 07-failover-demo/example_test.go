package failover_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	failover "example.com/redislock/07-failover-demo"
)

// Three nodes keep the lock, and a fourth Redis keeps the stock and refuses whoever comes too late.
func Example() {
	var closers []func()
	defer func() {
		for _, end := range closers {
			end()
		}
	}()
	connect := func() redis.UniversalClient {
		server, err := miniredis.Run() // take the address of yours
		if err != nil {
			panic(err)
		}
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
		closers = append(closers, func() { _ = rdb.Close(); server.Close() })
		return rdb
	}
	locks, err := failover.New([]redis.UniversalClient{connect(), connect(), connect()})
	if err != nil {
		panic(err)
	}
	shop := failover.NewGuard(connect())

	ctx := context.Background()
	sell := func() (fence int64) {
		k, err := locks.Lock(ctx, "stock:7", 30*time.Second)
		if err != nil {
			panic(err)
		}
		defer func() { _ = k.Unlock(ctx) }()
		if err := shop.Write(ctx, "stock:7", "99", k.Fence()); err != nil {
			panic(err)
		}
		return k.Fence()
	}

	first := sell()
	second := sell()
	fmt.Println(second > first)
	fmt.Println("too late:", errors.Is(shop.Write(ctx, "stock:7", "100", first), failover.ErrStale))
	// Output:
	// true
	// too late: true
}
