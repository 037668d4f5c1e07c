// Package naivesetnx is chapter 1: the Redis lock that everybody writes first.
//
// A mutex in each server says nothing about the other servers. SETNX does: Redis runs one command at a time, so of
// all servers one creates the key. This is the whole idea of a Redis lock, and everything around it is wrong.
//
// Guaranteed: two callers that find no key can't both acquire it.
//
// Not guaranteed, and kept on purpose, because the next chapters are about it:
//   - A crash between SETNX and PEXPIRE leaves a key for ever: see TestCrashBeforeExpire.
//   - A lost reply does the same without any crash: see TestReplyLostOnAcquire.
//   - Unlock deletes whatever key it finds, also somebody else's: see TestStaleHolderUnlocks.
//   - Calls may outlast their ctx, and Unlock its two seconds, while Redis hangs: go-redis waits for its own timeouts.
package naivesetnx

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

// The answers of a lock, for errors.Is. Any other error is the context's own or a Redis error, and after
// a Redis error the outcome is unknown.
var (
	// ErrNotAcquired says that somebody else holds the lock.
	ErrNotAcquired = errors.New("lock not acquired: somebody else holds it")
	// ErrNotHeld says that this acquisition does not own the key.
	ErrNotHeld = errors.New("lock not held")
)

// unlockBudget bounds one Unlock.
const unlockBudget = 2 * time.Second

// Locker makes locks on one Redis. It is configuration only and safe for concurrent use.
type Locker struct {
	rdb              redis.UniversalClient
	minWait, maxWait time.Duration
}

// Option configures a Locker.
type Option func(*Locker)

// WithBackoff sets how long Lock pauses between attempts: at first up to the one, then twice as long each
// time, up to the other. The default is 10 ms and 500 ms.
func WithBackoff(first, longest time.Duration) Option {
	return func(l *Locker) { l.minWait, l.maxWait = first, longest }
}

// New returns a Locker that keeps its locks in rdb. It sends nothing.
func New(rdb redis.UniversalClient, opts ...Option) *Locker {
	l := &Locker{rdb: rdb, minWait: 10 * time.Millisecond, maxWait: 500 * time.Millisecond}
	for _, opt := range opts {
		opt(l)
	}
	return l
}

// Lock is one acquisition. Its methods are safe for concurrent use.
type Lock struct {
	locker *Locker
	key    string
}

// TryLock makes one attempt to take the lock for ttl. It returns ErrNotAcquired if somebody else holds it.
func (l *Locker) TryLock(ctx context.Context, key string, ttl time.Duration) (*Lock, error) {
	if err := l.check(ctx, key, ttl); err != nil {
		return nil, err
	}
	k, _, err := l.acquire(ctx, key, ttl)
	return k, err
}

// Lock takes the lock for ttl and waits for it until ctx is done. An error that ends the waiting matches
// ErrNotAcquired and the context's own error. A Redis error ends it at once. The ttl starts when the lock is
// acquired, not when the waiting starts.
func (l *Locker) Lock(ctx context.Context, key string, ttl time.Duration) (*Lock, error) {
	if err := l.check(ctx, key, ttl); err != nil {
		return nil, err
	}
	var contended error // remembered, because the deadline may fall inside a later attempt
	for attempt := 0; ; attempt++ {
		k, remaining, err := l.acquire(ctx, key, ttl)
		if errors.Is(err, ErrNotAcquired) {
			contended = err
			if err = l.wait(ctx, attempt, remaining); err == nil {
				continue
			}
		}
		if err != nil && contended != nil && ended(ctx) != nil {
			err = fmt.Errorf("%w: %w", contended, err)
		}
		return k, err
	}
}

// acquire makes one attempt. If the lock is taken, it also says how long the key has left, or 0 if unknown.
func (l *Locker) acquire(ctx context.Context, key string, ttl time.Duration) (*Lock, time.Duration, error) {
	k := &Lock{locker: l, key: key}
	created, err := l.rdb.Do(ctx, "SETNX", redisKey(key), "locked").Bool()
	if err == nil && !created {
		return nil, 0, ErrNotAcquired
	}
	if err != nil {
		return nil, 0, fmt.Errorf("lock %q: %w", key, because(ctx, err))
	}
	// The flaw: the key exists and has no TTL yet. Whatever ends us here blocks everybody for ever.
	if err := l.rdb.PExpire(ctx, redisKey(key), ttl).Err(); err != nil {
		return nil, 0, fmt.Errorf("lock %q: %w", key, because(ctx, err))
	}
	return k, 0, nil
}

// Unlock frees the lock. It returns nil if it deleted a key, ErrNotHeld if there was none, and a Redis error if
// the outcome is unknown: then it may be called again.
// It works on a cancelled ctx, for "defer k.Unlock(ctx)", within two seconds of its own. A call on a Lock that is
// nil or zero returns ErrNotHeld.
func (k *Lock) Unlock(ctx context.Context) error {
	if k == nil || k.locker == nil {
		return ErrNotHeld
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockBudget)
	defer cancel()
	return k.release(ctx)
}

// release deletes the key.
func (k *Lock) release(ctx context.Context) error {
	// The flaw: every holder's key looks the same, so this may be the next holder's.
	deleted, err := k.locker.rdb.Del(ctx, redisKey(k.key)).Result()
	switch {
	case err != nil:
		return fmt.Errorf("unlock %q: %w", k.key, because(ctx, err))
	case deleted == 0:
		return ErrNotHeld
	}
	return nil
}

// Key returns the name of the resource, as the caller gave it.
func (k *Lock) Key() string { return k.key }

// because adds the context's error to err, which is often just "i/o timeout".
func because(ctx context.Context, err error) error {
	why := ended(ctx)
	if why == nil || errors.Is(err, why) {
		return err
	}
	return fmt.Errorf("%w: %w", why, err)
}

// ended is ctx.Err(), except that a socket may notice the deadline a moment before ctx does.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// redisKey is where the lock of a resource is kept.
func redisKey(key string) string { return "lock:" + key }

// check refuses what cannot work, before anything is sent.
func (l *Locker) check(ctx context.Context, key string, ttl time.Duration) error {
	if l == nil || l.rdb == nil {
		return errors.New("lock: no Redis client")
	}
	if v := reflect.ValueOf(l.rdb); v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.New("lock: the Redis client is a nil pointer")
	}
	switch {
	case key == "":
		return errors.New("lock: the key is empty")
	case ttl < time.Millisecond:
		return fmt.Errorf("lock %q: a ttl of %v is shorter than a millisecond", key, ttl)
	case l.minWait <= 0 || l.maxWait < l.minWait:
		return fmt.Errorf("lock: a back-off from %v to %v does not work", l.minWait, l.maxWait)
	}
	return ctx.Err()
}

// wait pauses before the next attempt. The pause doubles up to the cap and is random, so that many waiters
// spread out, and it ends soon after the key can expire.
func (l *Locker) wait(ctx context.Context, attempt int, remaining time.Duration) error {
	pause := l.maxWait
	if l.minWait <= pause>>attempt { // a product that is too large would be negative
		pause = l.minWait << attempt
	}
	pause = pause/2 + mathrand.N(pause/2+1)
	if remaining > 0 {
		pause = min(pause, remaining+mathrand.N(l.minWait))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ended(ctx) // also if both have come
}
