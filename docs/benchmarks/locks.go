package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	bsm "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	saferelease "example.com/redislock/03-safe-release"
	watchdog "example.com/redislock/04-watchdog"
	reentrant "example.com/redislock/05-reentrant"
	redlock "example.com/redislock/06-redlock"
	failover "example.com/redislock/07-failover-demo"
	"example.com/redislock/internal/redistest"
)

// All locks get the same settings, as far as they have them. Those of the chapters are their defaults.
const (
	firstPause   = 10 * time.Millisecond // between two attempts
	longestPause = 500 * time.Millisecond
	oneTimeout   = time.Second           // of a request to the only server
	nodeTimeout  = 50 * time.Millisecond // of a request to one of several
)

// lock is one of those that are compared.
type lock struct {
	name  string
	sends []string       // its requests. What the scripts run inside Redis are commands too, but no requests
	join  func() process // adds a process that uses the lock
}

// process is one user of a lock.
type process struct {
	// once takes a lock that is free and gives it back.
	once func(ctx context.Context, key string) error
	// wait takes a lock as soon as it can.
	wait func(ctx context.Context, key string) (unlock, error)
}

type unlock func(context.Context) error

// alone is a lock that knows nothing of the other users in its process: what it does for one it does for all.
func alone(name string, p process, sends ...string) lock {
	return lock{name: name, sends: sends, join: func() process { return p }}
}

// raw is what a lock can't do without: two round trips. Each goes through send.
func raw(name string, rdb redis.UniversalClient, ttl time.Duration, send func(func() error) error) lock {
	const token = "0123456789abcdef0123456789abcdef"
	script := redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
	take := func(ctx context.Context, key string) error {
		return send(func() error {
			ok, err := rdb.SetNX(ctx, key, token, ttl).Result()
			if err == nil && !ok {
				err = errors.New("somebody is in the way")
			}
			return err
		})
	}
	free := func(ctx context.Context, key string) error {
		return send(func() error { return script.Run(ctx, rdb, []string{key}, token).Err() })
	}
	return alone(name, process{
		once: func(ctx context.Context, key string) error {
			if err := take(ctx, key); err != nil {
				return err
			}
			return free(ctx, key)
		},
		wait: func(ctx context.Context, key string) (unlock, error) { // nobody is in its way
			return func(ctx context.Context) error { return free(ctx, key) }, take(ctx, key)
		},
	}, "set", "evalsha", "eval")
}

func directly(request func() error) error { return request() }

// aside sends a request in a goroutine of its own, as a lock has to that returns when its ctx ends, whatever the client does.
func aside(request func() error) error {
	done := make(chan error, 1)
	go func() { done <- request() }()
	return <-done
}

// chapter is a lock of this repository.
func chapter[K interface{ Unlock(context.Context) error }](name string, l interface {
	TryLock(ctx context.Context, key string, ttl time.Duration) (K, error)
	Lock(ctx context.Context, key string, ttl time.Duration) (K, error)
}, ttl time.Duration) lock {
	return alone(name, process{
		once: func(ctx context.Context, key string) error {
			k, err := l.TryLock(ctx, key, ttl)
			if err != nil {
				return err
			}
			return k.Unlock(ctx)
		},
		wait: func(ctx context.Context, key string) (unlock, error) {
			k, err := l.Lock(ctx, key, ttl)
			return k.Unlock, err
		},
	}, "eval")
}

func lock03(rdb redis.UniversalClient, ttl time.Duration, more ...saferelease.Option) lock {
	return chapter("03", saferelease.New(rdb, more...), ttl)
}

func lock04(rdb redis.UniversalClient, ttl time.Duration) lock {
	return chapter("04", watchdog.New(rdb), ttl)
}

func lock05(rdb redis.UniversalClient, ttl time.Duration) lock {
	return chapter("05", reentrant.New(rdb), ttl)
}

func lock06(t redistest.T, nodes []redis.UniversalClient, ttl time.Duration) lock {
	l, err := redlock.New(nodes, redlock.WithRequestTimeout(timeout(nodes)))
	must(t, err)
	return chapter("06", l, ttl)
}

func lock07(t redistest.T, nodes []redis.UniversalClient, ttl time.Duration) lock {
	l, err := failover.New(nodes, failover.WithRequestTimeout(timeout(nodes)))
	must(t, err)
	return chapter("07", l, ttl)
}

func timeout(nodes []redis.UniversalClient) time.Duration {
	if len(nodes) > 1 {
		return nodeTimeout
	}
	return oneTimeout
}

// pause is how long the chapters' locks wait after an attempt: twice as long each time, and random.
func pause(attempt int) time.Duration {
	d := min(longestPause, firstPause<<min(attempt, 16))
	return d/2 + rand.N(d/2+1)
}

// lockRedsync bounds an Unlock as it bounds a Lock: redsync leaves that to the caller's ctx.
func lockRedsync(nodes []redis.UniversalClient, ttl time.Duration, more ...redsync.Option) lock {
	pools := make([]redsyncredis.Pool, len(nodes))
	for i, node := range nodes {
		pools[i] = goredis.NewPool(node)
	}
	rs := redsync.New(pools...)
	options := append([]redsync.Option{
		redsync.WithExpiry(ttl),
		redsync.WithTimeoutFactor(float64(timeout(nodes)) / float64(ttl)),
		redsync.WithTries(1 << 30),
		redsync.WithRetryDelayFunc(func(tries int) time.Duration { return pause(tries - 1) }),
	}, more...)
	free := func(ctx context.Context, m *redsync.Mutex) error {
		ctx, cancel := context.WithTimeout(ctx, timeout(nodes))
		context.AfterFunc(ctx, cancel) // not earlier: fail fast, it returns while releases are under way
		_, err := m.UnlockContext(ctx)
		return err
	}
	return alone("redsync", process{
		once: func(ctx context.Context, key string) error {
			m := rs.NewMutex(key, options...)
			if err := m.TryLockContext(ctx); err != nil {
				return err
			}
			return free(ctx, m)
		},
		wait: func(ctx context.Context, key string) (unlock, error) {
			m := rs.NewMutex(key, options...)
			err := m.LockContext(ctx)
			return func(ctx context.Context) error { return free(ctx, m) }, err
		},
	}, "set", "evalsha", "eval")
}

func lockBsm(rdb redis.UniversalClient, ttl time.Duration) lock {
	client := bsm.New(rdb)
	return alone("bsm/redislock", process{
		once: func(ctx context.Context, key string) error {
			k, err := client.Obtain(ctx, key, ttl, nil)
			if err != nil {
				return err
			}
			return k.Release(ctx)
		},
		wait: func(ctx context.Context, key string) (unlock, error) {
			k, err := client.Obtain(ctx, key, ttl, &bsm.Options{RetryStrategy: &pauses{}})
			return k.Release, err
		},
	}, "evalsha", "eval")
}

// pauses is a strategy for bsm/redislock. One of its own has no randomness.
type pauses struct{ attempt int }

func (p *pauses) NextBackoff() time.Duration {
	p.attempt++
	return pause(p.attempt - 1)
}

// lockRueidis takes the settings that rueidislock recommends for one server. Each process has a connection of its own.
func lockRueidis(t redistest.T, addr string, ttl time.Duration) lock {
	join := func() process {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
			KeyMajority:    1,
			NoLoopTracking: true,
			KeyValidity:    ttl,
			ExtendInterval: ttl / 3,
			TryNextAfter:   oneTimeout,
		})
		must(t, err)
		t.Cleanup(l.Close)
		return process{
			once: func(ctx context.Context, key string) error {
				_, free, err := l.TryWithContext(ctx, key)
				if err != nil {
					return err
				}
				free()
				return nil
			},
			wait: func(ctx context.Context, key string) (unlock, error) {
				_, free, err := l.WithContext(ctx, key)
				return func(context.Context) error { free(); return nil }, err
			},
		}
	}
	return lock{name: "rueidislock", sends: []string{"evalsha", "eval"}, join: join}
}

func named(name string, l lock) lock {
	l.name = name
	return l
}
