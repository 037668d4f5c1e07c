package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	naivesetnx "example.com/redislock/01-naive-setnx"
	setnxpx "example.com/redislock/02-set-nx-px"
	saferelease "example.com/redislock/03-safe-release"
	watchdog "example.com/redislock/04-watchdog"
	reentrant "example.com/redislock/05-reentrant"
	redlock "example.com/redislock/06-redlock"
	failover "example.com/redislock/07-failover-demo"
	"example.com/redislock/07-failover-demo/monitor"
)

// lock is one line of the table: a chapter's lock, made equal to the others.
type lock struct {
	name   string // the chapter's folder
	nodes  int    // how many Redis servers it asks
	fenced bool   // its writes carry a token, and the shop refuses stale ones

	open func(nodes []redis.UniversalClient) (tryLock, error)
	errs monitor.Errors // the chapter's own
}

// tryLock makes one attempt.
type tryLock func(ctx context.Context, key string, ttl time.Duration) (lease, error)

// lease is what all acquisitions have in common. From chapter 4 on they also have a Context, and in 7 a Fence.
type lease interface {
	Unlock(ctx context.Context) error
	Key() string
}

func (l lock) number() string { return l.name[:2] }

// locks are all locks, oldest first. The first is what people have before they read this: a mutex in each process.
var locks = []lock{
	{name: "00-local-mutex", open: localMutex, errs: monitor.Errors{NotAcquired: errMutex, NotHeld: errMutex}},
	{
		name: "01-naive-setnx", nodes: 1, errs: monitor.Errors{NotAcquired: naivesetnx.ErrNotAcquired, NotHeld: naivesetnx.ErrNotHeld},
		open: one(func(rdb redis.UniversalClient) locker[*naivesetnx.Lock] { return naivesetnx.New(rdb) }),
	}, {
		name: "02-set-nx-px", nodes: 1, errs: monitor.Errors{NotAcquired: setnxpx.ErrNotAcquired, NotHeld: setnxpx.ErrNotHeld, Expired: setnxpx.ErrExpired, Stolen: setnxpx.ErrStolen},
		open: one(func(rdb redis.UniversalClient) locker[*setnxpx.Lock] { return setnxpx.New(rdb) }),
	}, {
		name: "03-safe-release", nodes: 1, errs: monitor.Errors{NotAcquired: saferelease.ErrNotAcquired, NotHeld: saferelease.ErrNotHeld, Expired: saferelease.ErrExpired, Stolen: saferelease.ErrStolen},
		open: one(func(rdb redis.UniversalClient) locker[*saferelease.Lock] { return saferelease.New(rdb) }),
	}, {
		name: "04-watchdog", nodes: 1, errs: monitor.Errors{NotAcquired: watchdog.ErrNotAcquired, NotHeld: watchdog.ErrNotHeld, Expired: watchdog.ErrExpired, Stolen: watchdog.ErrStolen},
		open: one(func(rdb redis.UniversalClient) locker[*watchdog.Lock] { return watchdog.New(rdb) }),
	}, {
		name: "05-reentrant", nodes: 1, errs: monitor.Errors{NotAcquired: reentrant.ErrNotAcquired, NotHeld: reentrant.ErrNotHeld, Expired: reentrant.ErrExpired, Stolen: reentrant.ErrStolen},
		open: one(func(rdb redis.UniversalClient) locker[*reentrant.Lock] { return reentrant.New(rdb) }),
	}, {
		name: "06-redlock", nodes: 5, errs: monitor.Errors{NotAcquired: redlock.ErrNotAcquired, NotHeld: redlock.ErrNotHeld, Expired: redlock.ErrExpired, Stolen: redlock.ErrStolen},
		open: many(func(nodes []redis.UniversalClient) (locker[*redlock.Lock], error) { return redlock.New(nodes) }),
	}, {
		name: "07-failover-demo", nodes: 5, fenced: true, errs: monitor.Errors{NotAcquired: failover.ErrNotAcquired, NotHeld: failover.ErrNotHeld, Expired: failover.ErrExpired, Stolen: failover.ErrStolen},
		open: many(func(nodes []redis.UniversalClient) (locker[*failover.Lock], error) { return failover.New(nodes) }),
	},
}

// findLock finds a lock by "03", "3" or its name.
func findLock(name string) (lock, bool) {
	for _, l := range locks {
		if l.name == name || l.number() == name || strings.TrimPrefix(l.number(), "0") == name {
			return l, true
		}
	}
	return lock{}, false
}

// locker is a chapter's own Locker, whose Lock type is the chapter's own too.
type locker[K lease] interface {
	TryLock(ctx context.Context, key string, ttl time.Duration) (K, error)
}

// one opens a lock that lives on a single Redis.
func one[K lease](open func(redis.UniversalClient) locker[K]) func([]redis.UniversalClient) (tryLock, error) {
	return func(nodes []redis.UniversalClient) (tryLock, error) { return attempt(open(nodes[0])), nil }
}

// many opens a lock that lives on several.
func many[K lease](open func([]redis.UniversalClient) (locker[K], error)) func([]redis.UniversalClient) (tryLock, error) {
	return func(nodes []redis.UniversalClient) (tryLock, error) {
		l, err := open(nodes)
		if err != nil {
			return nil, err
		}
		return attempt(l), nil
	}
}

func attempt[K lease](l locker[K]) tryLock {
	return func(ctx context.Context, key string, ttl time.Duration) (lease, error) {
		k, err := l.TryLock(ctx, key, ttl)
		if err != nil {
			return nil, err // not k: a nil pointer in an interface is not nil
		}
		return k, nil
	}
}

var errMutex = errors.New("the mutex of this process is locked")

// localMutex knows nothing of other processes.
func localMutex([]redis.UniversalClient) (tryLock, error) {
	var mu sync.Mutex
	return func(_ context.Context, key string, _ time.Duration) (lease, error) {
		if !mu.TryLock() {
			return nil, errMutex
		}
		return unlocker{&mu, key}, nil
	}, nil
}

type unlocker struct {
	mu  *sync.Mutex
	key string
}

func (u unlocker) Key() string { return u.key }

func (u unlocker) Unlock(context.Context) error {
	u.mu.Unlock()
	return nil
}
