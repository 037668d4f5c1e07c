package reentrant_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	reentrant "example.com/redislock/05-reentrant"
)

// The function placeOrder holds the lock of the order and calls reserveStock, which takes it too. The ctx says that both are one piece of work.
func Example() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	locks := reentrant.New(rdb, reentrant.WithMaxHold(time.Hour))

	reserveStock := func(ctx context.Context) error {
		return locks.Do(ctx, "order:1", 30*time.Second, func(ctx context.Context) error {
			fmt.Println("stock reserved")
			return nil
		})
	}
	placeOrder := func(ctx context.Context) error {
		return locks.Do(ctx, "order:1", 30*time.Second, func(ctx context.Context) error {
			if err := reserveStock(ctx); err != nil {
				return err
			}
			fmt.Println("order placed, still locked:", server.Exists("lock:order:1"))
			return nil
		})
	}
	fmt.Println(placeOrder(reentrant.WithOwner(context.Background())))
	fmt.Println("locked:", server.Exists("lock:order:1"))
	// Output:
	// stock reserved
	// order placed, still locked: true
	// <nil>
	// locked: false
}
