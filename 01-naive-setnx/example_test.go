package naivesetnx_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	naivesetnx "example.com/redislock/01-naive-setnx"
)

// Two servers want to sell the last item of a flash sale.
func Example() {
	ctx := context.Background()
	server, err := miniredis.Run() // an embedded Redis; take the address of yours
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	locker := naivesetnx.New(rdb)
	lock, err := locker.TryLock(ctx, "item:7", 30*time.Second)
	if err != nil {
		panic(err)
	}
	fmt.Println("server 1 sells", lock.Key())

	_, err = locker.TryLock(ctx, "item:7", 30*time.Second)
	fmt.Println("server 2 has to wait:", errors.Is(err, naivesetnx.ErrNotAcquired))

	if err := lock.Unlock(ctx); err != nil {
		panic(err)
	}
	fmt.Println("the lock is free")
	// Output:
	// server 1 sells item:7
	// server 2 has to wait: true
	// the lock is free
}
