package contract

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	naivesetnx "example.com/redislock/01-naive-setnx"
	setnxpx "example.com/redislock/02-set-nx-px"
	saferelease "example.com/redislock/03-safe-release"
	watchdog "example.com/redislock/04-watchdog"
	reentrant "example.com/redislock/05-reentrant"
	redlock "example.com/redislock/06-redlock"
	failover "example.com/redislock/07-failover-demo"
	"example.com/redislock/internal/story"
)

// chapter is a chapter's lock, with what the stories don't need of it.
type chapter struct {
	story.Chapter
	nilLocker   []call // the methods of a nil *Locker
	noLock      []call // the methods of a nil *Lock, and of one that nobody has acquired
	withBackoff func(rdb redis.UniversalClient, first, longest time.Duration) call
	do          func(redis.UniversalClient) doer // from chapter 3 on

	patient    func(...redis.UniversalClient) story.Locker // instead of New: its requests may take as long as those of chapter 4
	background bool                                        // it sends from goroutines of its own, and renews what it holds: from chapter 4 on
	shortest   time.Duration                               // the shortest ttl that it takes
}

// cleansUp reports whether the lock takes back what a failed attempt may have left, behind the caller's back if need be.
func (c chapter) cleansUp() bool { return c.do != nil }

// call is a method of which only the error counts.
type call func(ctx context.Context) error

type doer interface {
	Do(ctx context.Context, key string, ttl time.Duration, fn func(context.Context) error) error
}

var extras = map[string]chapter{
	"01": {
		nilLocker: []call{locking((*naivesetnx.Locker)(nil).TryLock), locking((*naivesetnx.Locker)(nil).Lock)},
		noLock:    []call{(*naivesetnx.Lock)(nil).Unlock, new(naivesetnx.Lock).Unlock},
		withBackoff: func(rdb redis.UniversalClient, first, longest time.Duration) call {
			return locking(naivesetnx.New(rdb, naivesetnx.WithBackoff(first, longest)).Lock)
		},
	},
	"02": {
		nilLocker: []call{locking((*setnxpx.Locker)(nil).TryLock), locking((*setnxpx.Locker)(nil).Lock)},
		noLock:    []call{(*setnxpx.Lock)(nil).Unlock, new(setnxpx.Lock).Unlock},
		withBackoff: func(rdb redis.UniversalClient, first, longest time.Duration) call {
			return locking(setnxpx.New(rdb, setnxpx.WithBackoff(first, longest)).Lock)
		},
	},
	"03": {
		nilLocker: []call{locking((*saferelease.Locker)(nil).TryLock), locking((*saferelease.Locker)(nil).Lock)},
		noLock:    []call{(*saferelease.Lock)(nil).Unlock, new(saferelease.Lock).Unlock},
		withBackoff: func(rdb redis.UniversalClient, first, longest time.Duration) call {
			return locking(saferelease.New(rdb, saferelease.WithBackoff(first, longest)).Lock)
		},
		do: func(rdb redis.UniversalClient) doer { return saferelease.New(rdb) },
	},
	"04": {
		nilLocker: []call{locking((*watchdog.Locker)(nil).TryLock), locking((*watchdog.Locker)(nil).Lock)},
		noLock:    extending((*watchdog.Lock)(nil), new(watchdog.Lock)),
		withBackoff: func(rdb redis.UniversalClient, first, longest time.Duration) call {
			return locking(watchdog.New(rdb, watchdog.WithBackoff(first, longest)).Lock)
		},
		do:         func(rdb redis.UniversalClient) doer { return watchdog.New(rdb) },
		background: true,
		shortest:   500 * time.Millisecond, // a request may take a quarter of it, and machines are slow at times
	},
	"05": {
		nilLocker: []call{locking((*reentrant.Locker)(nil).TryLock), locking((*reentrant.Locker)(nil).Lock)},
		noLock:    extending((*reentrant.Lock)(nil), new(reentrant.Lock)),
		withBackoff: func(rdb redis.UniversalClient, first, longest time.Duration) call {
			return locking(reentrant.New(rdb, reentrant.WithBackoff(first, longest)).Lock)
		},
		do:         func(rdb redis.UniversalClient) doer { return reentrant.New(rdb) },
		background: true,
		shortest:   500 * time.Millisecond,
	},
	"06": {
		nilLocker: []call{locking((*redlock.Locker)(nil).TryLock), locking((*redlock.Locker)(nil).Lock)},
		noLock:    extending((*redlock.Lock)(nil), new(redlock.Lock)),
		withBackoff: func(rdb redis.UniversalClient, first, longest time.Duration) call {
			return locking(single(rdb, redlock.WithBackoff(first, longest)).Lock)
		},
		do:         func(rdb redis.UniversalClient) doer { return single(rdb) },
		patient:    story.Redlock(redlock.WithRequestTimeout(300 * time.Millisecond)),
		background: true,
		shortest:   500 * time.Millisecond,
	},
	"07": {
		nilLocker: []call{locking((*failover.Locker)(nil).TryLock), locking((*failover.Locker)(nil).Lock)},
		noLock:    extending((*failover.Lock)(nil), new(failover.Lock)),
		withBackoff: func(rdb redis.UniversalClient, first, longest time.Duration) call {
			return locking(fenced(rdb, failover.WithBackoff(first, longest)).Lock)
		},
		do:         func(rdb redis.UniversalClient) doer { return fenced(rdb) },
		patient:    story.Fenced(failover.WithRequestTimeout(300 * time.Millisecond)),
		background: true,
		shortest:   500 * time.Millisecond,
	},
}

// single is a majority of one: what concerns one Redis is the same there. Tests of chapter 6 have more nodes.
func single(rdb redis.UniversalClient, opts ...redlock.Option) *redlock.Locker {
	l, _ := redlock.New([]redis.UniversalClient{rdb}, opts...)
	return l
}

func fenced(rdb redis.UniversalClient, opts ...failover.Option) *failover.Locker {
	l, _ := failover.New([]redis.UniversalClient{rdb}, opts...)
	return l
}

// locking is a Lock or TryLock of the usual key.
func locking[K any](f func(context.Context, string, time.Duration) (K, error)) call {
	return func(ctx context.Context) error {
		_, err := f(ctx, key, lease)
		return err
	}
}

// extending is Unlock and Extend of some handles.
func extending(locks ...interface {
	Unlock(context.Context) error
	Extend(context.Context, time.Duration) error
}) (all []call) {
	for _, k := range locks {
		all = append(all, k.Unlock, func(ctx context.Context) error { return k.Extend(ctx, lease) })
	}
	return all
}

func chapterOf(t *testing.T, number string) chapter {
	t.Helper()
	base, ok := story.ByNumber(number)
	ch, known := extras[number]
	if !ok || !known {
		t.Fatalf("the contract knows no chapter %q", number)
	}
	ch.Chapter = base
	if ch.patient != nil {
		ch.New = ch.patient
	}
	ch.shortest = max(ch.shortest, time.Millisecond)
	return ch
}
