package saferelease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	saferelease "example.com/redislock/03-safe-release"
)

// Ten servers sell three items. Each of them reads the stock, thinks, and writes it back.
func Example() {
	server, err := miniredis.Run() // an embedded Redis; take the address of yours
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // how long to wait, not how long to hold
	defer cancel()
	locker := saferelease.New(rdb)
	stock, sold := 3, 0
	sell := func() error {
		lock, err := locker.Lock(ctx, "item:7", 30*time.Second)
		if err != nil {
			return err // not acquired: nothing may be sold
		}
		if stock > 0 {
			stock, sold = stock-1, sold+1
		}
		return lock.Unlock(ctx)
	}

	var servers sync.WaitGroup
	for range 10 {
		servers.Go(func() {
			if err := sell(); err != nil {
				fmt.Println(err)
			}
		})
	}
	servers.Wait()
	fmt.Println("sold", sold, "and left", stock)
	// Output: sold 3 and left 0
}

// Do unlocks whatever happens, and shows the error of the work as well as that of the lock.
func ExampleLocker_Do() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	locker := saferelease.New(rdb)
	errDeclined := errors.New("the card was declined")
	err = locker.Do(context.Background(), "order:1", 30*time.Second, func(context.Context) error {
		return errDeclined
	})
	fmt.Println(err)
	fmt.Println("locked:", server.Exists("lock:order:1"))

	err = locker.Do(context.Background(), "order:1", 30*time.Second, func(context.Context) error {
		server.FastForward(31 * time.Second) // the work outlives the lease
		return errDeclined
	})
	fmt.Println("declined:", errors.Is(err, errDeclined), "expired:", errors.Is(err, saferelease.ErrExpired))
	// Output:
	// the card was declined
	// locked: false
	// declined: true expired: true
}
