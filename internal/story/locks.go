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
	New func(redis.UniversalClient) Locker

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
		Dir: "00-local-mutex", New: newLocalMutex,
		ErrNotAcquired: errMutexTaken, ErrNotHeld: errMutexFree, ErrExpired: errMutexFree, ErrStolen: errMutexFree,
	}, {
		Dir: "01-naive-setnx",
		New: func(rdb redis.UniversalClient) Locker { return adapter[*naivesetnx.Lock]{naivesetnx.New(rdb)} },

		ErrNotAcquired: naivesetnx.ErrNotAcquired, ErrNotHeld: naivesetnx.ErrNotHeld,
		ErrExpired: naivesetnx.ErrNotHeld, ErrStolen: naivesetnx.ErrNotHeld,
	}, {
		Dir: "02-set-nx-px",
		New: func(rdb redis.UniversalClient) Locker { return adapter[*setnxpx.Lock]{setnxpx.New(rdb)} },

		ErrNotAcquired: setnxpx.ErrNotAcquired, ErrNotHeld: setnxpx.ErrNotHeld,
		ErrExpired: setnxpx.ErrExpired, ErrStolen: setnxpx.ErrStolen,
	}, {
		Dir: "03-safe-release",
		New: func(rdb redis.UniversalClient) Locker { return adapter[*saferelease.Lock]{saferelease.New(rdb)} },

		ErrNotAcquired: saferelease.ErrNotAcquired, ErrNotHeld: saferelease.ErrNotHeld,
		ErrExpired: saferelease.ErrExpired, ErrStolen: saferelease.ErrStolen,
	}, {
		Dir: "04-watchdog",
		New: func(rdb redis.UniversalClient) Locker { return adapter[*watchdog.Lock]{watchdog.New(rdb)} },

		ErrNotAcquired: watchdog.ErrNotAcquired, ErrNotHeld: watchdog.ErrNotHeld,
		ErrExpired: watchdog.ErrExpired, ErrStolen: watchdog.ErrStolen,
	}, {
		Dir: "05-reentrant",
		New: func(rdb redis.UniversalClient) Locker { return adapter[*reentrant.Lock]{reentrant.New(rdb)} },

		WithOwner: reentrant.WithOwner,

		ErrNotAcquired: reentrant.ErrNotAcquired, ErrNotHeld: reentrant.ErrNotHeld,
		ErrExpired: reentrant.ErrExpired, ErrStolen: reentrant.ErrStolen,
	},
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
