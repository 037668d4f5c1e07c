package story

import (
	"context"
	"errors"
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
)

// Lock is what the locks of all chapters have in common: one acquisition.
type Lock interface {
	Unlock(ctx context.Context) error
	Key() string
}

// Locker is what the lockers of all chapters have in common.
type Locker interface {
	TryLock(ctx context.Context, key string, ttl time.Duration) (Lock, error)
	Lock(ctx context.Context, key string, ttl time.Duration) (Lock, error)
}

// Chapter is one chapter's lock, made equal to the others, so that one story can be told with all of them.
type Chapter struct {
	Dir string // the folder, such as "03-safe-release"
	New func(nodes ...redis.UniversalClient) Locker

	// Nodes is how many Redis nodes the lock is told with: more than one from chapter 6 on.
	Nodes int

	// WithOwner marks a ctx as one owner's, from chapter 5 on.
	WithOwner func(context.Context) context.Context

	// The chapter's errors. ErrExpired and ErrStolen are ErrNotHeld where the chapter can't tell.
	ErrNotAcquired, ErrNotHeld, ErrExpired, ErrStolen error
}

// Number of the chapter: "03".
func (c Chapter) Number() string { return c.Dir[:2] }

// Chapters lists all locks, oldest first. Number 00 is what people have before they read this: a mutex in each server.
var Chapters = []Chapter{
	{
		Dir: "00-local-mutex", New: one(newLocalMutex),
		ErrNotAcquired: errMutexTaken, ErrNotHeld: errMutexFree, ErrExpired: errMutexFree, ErrStolen: errMutexFree,
	}, {
		Dir: "01-naive-setnx",
		New: one(func(rdb redis.UniversalClient) Locker { return adapter[*naivesetnx.Lock]{naivesetnx.New(rdb)} }),

		ErrNotAcquired: naivesetnx.ErrNotAcquired, ErrNotHeld: naivesetnx.ErrNotHeld,
		ErrExpired: naivesetnx.ErrNotHeld, ErrStolen: naivesetnx.ErrNotHeld,
	}, {
		Dir: "02-set-nx-px",
		New: one(func(rdb redis.UniversalClient) Locker { return adapter[*setnxpx.Lock]{setnxpx.New(rdb)} }),

		ErrNotAcquired: setnxpx.ErrNotAcquired, ErrNotHeld: setnxpx.ErrNotHeld,
		ErrExpired: setnxpx.ErrExpired, ErrStolen: setnxpx.ErrStolen,
	}, {
		Dir: "03-safe-release",
		New: one(func(rdb redis.UniversalClient) Locker { return adapter[*saferelease.Lock]{saferelease.New(rdb)} }),

		ErrNotAcquired: saferelease.ErrNotAcquired, ErrNotHeld: saferelease.ErrNotHeld,
		ErrExpired: saferelease.ErrExpired, ErrStolen: saferelease.ErrStolen,
	}, {
		Dir: "04-watchdog",
		New: one(func(rdb redis.UniversalClient) Locker { return adapter[*watchdog.Lock]{watchdog.New(rdb)} }),

		ErrNotAcquired: watchdog.ErrNotAcquired, ErrNotHeld: watchdog.ErrNotHeld,
		ErrExpired: watchdog.ErrExpired, ErrStolen: watchdog.ErrStolen,
	}, {
		Dir: "05-reentrant",
		New: one(func(rdb redis.UniversalClient) Locker { return adapter[*reentrant.Lock]{reentrant.New(rdb)} }),

		WithOwner: reentrant.WithOwner,

		ErrNotAcquired: reentrant.ErrNotAcquired, ErrNotHeld: reentrant.ErrNotHeld,
		ErrExpired: reentrant.ErrExpired, ErrStolen: reentrant.ErrStolen,
	}, {
		Dir: "06-redlock", Nodes: 3, New: Redlock(),

		ErrNotAcquired: redlock.ErrNotAcquired, ErrNotHeld: redlock.ErrNotHeld,
		ErrExpired: redlock.ErrExpired, ErrStolen: redlock.ErrStolen,
	}, {
		Dir: "07-failover-demo", Nodes: 3, New: Fenced(),

		ErrNotAcquired: failover.ErrNotAcquired, ErrNotHeld: failover.ErrNotHeld,
		ErrExpired: failover.ErrExpired, ErrStolen: failover.ErrStolen,
	},
}

// Fenced makes chapter 7's lockers.
func Fenced(opts ...failover.Option) func(...redis.UniversalClient) Locker {
	return func(nodes ...redis.UniversalClient) Locker {
		l, err := failover.New(nodes, opts...)
		if err != nil {
			return refused{err}
		}
		return adapter[*failover.Lock]{l}
	}
}

// refused is the Locker of somebody who goes on after New has returned an error.
type refused struct{ err error }

func (r refused) TryLock(context.Context, string, time.Duration) (Lock, error) { return nil, r.err }
func (r refused) Lock(context.Context, string, time.Duration) (Lock, error)    { return nil, r.err }

// Redlock makes chapter 6's lockers.
func Redlock(opts ...redlock.Option) func(...redis.UniversalClient) Locker {
	return func(nodes ...redis.UniversalClient) Locker {
		l, err := redlock.New(nodes, opts...)
		if err != nil {
			return refused{err}
		}
		return adapter[*redlock.Lock]{l}
	}
}

// one is a lock that needs a single node.
func one(lock func(redis.UniversalClient) Locker) func(...redis.UniversalClient) Locker {
	return func(nodes ...redis.UniversalClient) Locker { return lock(nodes[0]) }
}

// ByNumber finds a chapter by "03" or "3".
func ByNumber(number string) (Chapter, bool) {
	for _, c := range Chapters {
		if c.Number() == number || c.Number() == "0"+number {
			return c, true
		}
	}
	return Chapter{}, false
}

// chapterLocker is a chapter's own Locker, whose Lock type is the chapter's own too.
type chapterLocker[K Lock] interface {
	TryLock(ctx context.Context, key string, ttl time.Duration) (K, error)
	Lock(ctx context.Context, key string, ttl time.Duration) (K, error)
}

// adapter turns a chapter's Locker into the common one. A handle that comes with an error is passed on, because
// that is something a test wants to see.
type adapter[K interface {
	comparable
	Lock
}] struct{ chapterLocker[K] }

func (a adapter[K]) TryLock(ctx context.Context, key string, ttl time.Duration) (Lock, error) {
	return orNil(a.chapterLocker.TryLock(ctx, key, ttl))
}

func (a adapter[K]) Lock(ctx context.Context, key string, ttl time.Duration) (Lock, error) {
	return orNil(a.chapterLocker.Lock(ctx, key, ttl))
}

func orNil[K interface {
	comparable
	Lock
}](k K, err error) (Lock, error) {
	var none K
	if k == none {
		return nil, err
	}
	return k, err
}

var (
	errMutexTaken = errors.New("the mutex of this server is locked")
	errMutexFree  = errors.New("the mutex of this server is not locked")
)

// localMutex is a sync.Mutex in one server's memory. It knows nothing of Redis, of other servers, or of time.
type localMutex struct {
	mu  sync.Mutex
	key string
}

func newLocalMutex(redis.UniversalClient) Locker { return &localMutex{} }

func (m *localMutex) TryLock(_ context.Context, key string, _ time.Duration) (Lock, error) {
	if !m.mu.TryLock() {
		return nil, errMutexTaken
	}
	m.key = key
	return m, nil
}

func (m *localMutex) Lock(ctx context.Context, key string, ttl time.Duration) (Lock, error) {
	m.mu.Lock()
	m.key = key
	return m, nil
}

func (m *localMutex) Unlock(context.Context) error {
	m.mu.Unlock()
	return nil
}

func (m *localMutex) Key() string { return m.key }
