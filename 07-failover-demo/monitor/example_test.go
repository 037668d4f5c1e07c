package monitor_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	watchdog "example.com/redislock/04-watchdog"
	monitor "example.com/redislock/07-failover-demo/monitor"
)

// A service counts what its locks do. Serve the registry at /metrics with promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).
func Example() {
	server, err := miniredis.Run() // an embedded Redis; take the address of yours
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()

	m := monitor.New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	rdb.AddHook(m.Hook("redis-1"))
	locks := monitor.Wrap(m, "orders", watchdog.New(rdb), monitor.Errors{
		NotAcquired: watchdog.ErrNotAcquired, NotHeld: watchdog.ErrNotHeld,
		Expired: watchdog.ErrExpired, Stolen: watchdog.ErrStolen,
	})

	ctx := context.Background()
	for order := range 3 {
		lock, err := locks.TryLock(ctx, fmt.Sprint("order:", order), 30*time.Second)
		if err != nil {
			panic(err)
		}
		work := lock.Handle().Context() // the chapter's own handle, with all that it can do
		fmt.Println(lock.Key(), work.Err())
		if order < 2 { // and the last one is still held
			_ = lock.Unlock(ctx)
		}
	}
	show(registry, "redislock_attempts_total", "redislock_held", "redislock_unlocks_total")
	// Output:
	// order:0 <nil>
	// order:1 <nil>
	// order:2 <nil>
	// redislock_attempts_total acquired 3
	// redislock_held 1
	// redislock_unlocks_total released 2
}

// An audit finds the key that a crashed holder of chapter 1 has left: no process knows of it any more.
func ExampleAudit() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	ctx := context.Background()
	_ = rdb.SetNX(ctx, "lock:order:1", "locked", 0).Err()
	if _, err := watchdog.New(rdb).TryLock(ctx, "order:2", 30*time.Second); err != nil {
		panic(err)
	}

	report, err := monitor.Audit(ctx, rdb, monitor.Limits{MaxTTL: time.Minute})
	if err != nil {
		panic(err)
	}
	fmt.Println(report.Locks, "locks,", report.Problems(), "problem")
	for _, key := range report.NoTTL.Keys {
		fmt.Println(key.Name, "never expires")
	}
	// Output:
	// 2 locks, 1 problem
	// lock:order:1 never expires
}

// show prints the series of some metrics that are not zero.
func show(from prometheus.Gatherer, names ...string) {
	families, err := from.Gather()
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		for _, family := range families {
			if family.GetName() != name {
				continue
			}
			for _, x := range family.GetMetric() {
				if v := x.GetCounter().GetValue() + x.GetGauge().GetValue(); v != 0 {
					line := name
					if labels := x.GetLabel(); len(labels) > 1 {
						line += " " + labels[1].GetValue()
					}
					fmt.Fprintln(os.Stdout, line, v)
				}
			}
		}
	}
}
