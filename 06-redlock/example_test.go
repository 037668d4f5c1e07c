package redlock_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	redlock "example.com/redislock/06-redlock"
)

// embedded starts n independent Redis servers inside this process. Take the addresses of yours.
func embedded(n int) (servers []*miniredis.Miniredis, stop func()) {
	for range n {
		server, err := miniredis.Run()
		if err != nil {
			panic(err)
		}
		servers = append(servers, server)
	}
	return servers, func() {
		for _, server := range servers {
			server.Close()
		}
	}
}

// Three nodes. One of them dies while the lock is held, and nobody notices.
func Example() {
	servers, stop := embedded(3)
	defer stop()
	var nodes []redis.UniversalClient
	for _, server := range servers {
		node := redis.NewClient(&redis.Options{Addr: server.Addr()})
		defer func() { _ = node.Close() }()
		nodes = append(nodes, node)
	}
	locks, err := redlock.New(nodes, redlock.WithMaxHold(time.Hour))
	if err != nil {
		panic(err)
	}

	err = locks.Do(context.Background(), "report:2026-11", 30*time.Second, func(ctx context.Context) error {
		servers[0].Close()
		if ctx.Err() != nil {
			return context.Cause(ctx) // somebody else may be at work by now
		}
		fmt.Println("the report is written by one process")
		return nil
	})
	fmt.Println(err)
	// Output:
	// the report is written by one process
	// <nil>
}

// Five nodes and their password: the addresses come from a file, the password from the environment.
func ExampleReadConfig() {
	servers, stop := embedded(5)
	defer stop()
	file, err := os.Open("testdata/redlock.json")
	if err != nil {
		panic(err)
	}
	defer func() { _ = file.Close() }()
	config, err := redlock.ReadConfig(file)
	if err != nil {
		panic(err)
	}
	_ = os.Setenv("LOCK_REDIS_PASSWORD", "from the vault")
	for i, server := range servers { // the file's servers are not here
		server.RequireAuth("from the vault")
		config.Nodes[i] = server.Addr()
	}

	locks, closeAll, err := config.Open()
	if err != nil {
		panic(err)
	}
	defer func() { _ = closeAll() }()
	lock, err := locks.Lock(context.Background(), "order:1", 30*time.Second)
	if err != nil {
		panic(err)
	}
	fmt.Println("held:", lock.Context().Err() == nil)
	fmt.Println(lock.Unlock(context.Background()))
	// Output:
	// held: true
	// <nil>
}
