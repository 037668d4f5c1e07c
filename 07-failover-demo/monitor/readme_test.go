package monitor_test

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	watchdog "example.com/redislock/04-watchdog"
	monitor "example.com/redislock/07-failover-demo/monitor"
)

var _ = use // the README shows it

func use(ctx context.Context, registry prometheus.Registerer, rdb *redis.Client, work func(context.Context)) error {
	m := monitor.New()
	registry.MustRegister(m)       // one Monitor in a process
	rdb.AddHook(m.Hook("redis-1")) // what happens between the locks and this Redis
	locks := monitor.Wrap(m, "orders", watchdog.New(rdb), monitor.Errors{
		NotAcquired: watchdog.ErrNotAcquired, NotHeld: watchdog.ErrNotHeld,
		Expired: watchdog.ErrExpired, Stolen: watchdog.ErrStolen,
	})
	go func() { _ = m.Watch(ctx, "redis-1", rdb, time.Minute, monitor.Limits{}) }() // in one process: look into Redis

	lock, err := locks.Lock(ctx, "order:1", 30*time.Second) // err is the chapter's own
	if err != nil {
		return err
	}
	work(lock.Handle().Context()) // so is the handle
	return lock.Unlock(ctx)
}
