package setnxpx_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	setnxpx "example.com/redislock/02-set-nx-px"
)

// A server takes too long over an order. Its lease ends, another one takes over, and the slow one learns it.
func Example() {
	ctx := context.Background()
	server, err := miniredis.Run() // an embedded Redis; take the address of yours
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	locker := setnxpx.New(rdb)
	slow, err := locker.TryLock(ctx, "order:1", 30*time.Second)
	if err != nil {
		panic(err)
	}
	server.FastForward(31 * time.Second) // the lease ends

	next, err := locker.TryLock(ctx, "order:1", 30*time.Second)
	if err != nil {
		panic(err)
	}
	err = slow.Unlock(ctx)
	fmt.Println("the slow server:", err)
	fmt.Println("stolen:", errors.Is(err, setnxpx.ErrStolen))
	fmt.Println("the next server:", next.Unlock(ctx))
	// Output:
	// the slow server: lock not held: its key belongs to another acquisition
	// stolen: true
	// the next server: <nil>
}
