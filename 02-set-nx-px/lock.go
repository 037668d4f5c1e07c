// Package setnxpx is chapter 2: a Redis lock in one atomic command, with an owner's token.
//
// Chapter 1 set the key and its TTL in two commands, and deleted whatever it found. Here SET NX PX does both at
// once, so a crash can't leave a key for ever, and the key holds a random token, so that Unlock can look whose it is.
//
// Guaranteed, on one Redis that keeps its data:
//   - Mutual exclusion while leases last, as long as no Unlock is late.
//   - A crashed holder blocks others for one TTL at most.
//   - An Unlock that sees another's token leaves the key alone.
//
// Not guaranteed, and kept on purpose, because chapter 3 is about it:
//   - Unlock looks first and deletes second. A lease that ends in between loses somebody else's lock:
//     see TestGetThenDelInterleaved.
//   - A lost reply makes TryLock answer "taken" while the key holds its own token: see TestReplyLostOnAcquire.
//   - A lost reply makes go-redis resend the DEL, which finds nothing, so that Unlock says ErrExpired of a lock that it
//     has just freed, or hits the next holder: see TestReplyLostOnRelease.
//   - Calls may outlast their ctx, and Unlock its two seconds, while Redis hangs: go-redis waits for its own timeouts.
package setnxpx

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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
	// ErrNotHeld says that this acquisition does not own the key. ErrExpired and ErrStolen match it too.
	ErrNotHeld = errors.New("lock not held")
	// ErrExpired says that the key is gone: its TTL ended, or somebody removed it.
	ErrExpired = fmt.Errorf("%w: its key is gone", ErrNotHeld)
	// ErrStolen says that the key belongs to another acquisition.
	ErrStolen = fmt.Errorf("%w: its key belongs to another acquisition", ErrNotHeld)
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
	locker     *Locker
	key, token string
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
	token, err := newToken()
	if err != nil {
		return nil, 0, err
	}
	k := &Lock{locker: l, key: key, token: token}
	// Chapter 1 needed a second command for the TTL, and a crash could fall between the two.
	err = l.rdb.Do(ctx, "SET", redisKey(key), token, "NX", "PX", ttl.Milliseconds()).Err()
	if errors.Is(err, redis.Nil) {
		return nil, 0, ErrNotAcquired
	}
	if err != nil {
		return nil, 0, fmt.Errorf("lock %q: %w", key, because(ctx, err))
	}
	return k, 0, nil
}

// Unlock frees the lock. It returns nil if this acquisition owned the key until now, ErrExpired or ErrStolen
// if it no longer did, and a Redis error if the outcome is unknown: then it may be called again.
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

// release looks whose key it is, and deletes it if it is ours.
func (k *Lock) release(ctx context.Context) error {
	// Chapter 1 deleted whatever it found. The token says whose lock this is.
	owner, err := k.locker.rdb.Get(ctx, redisKey(k.key)).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return ErrExpired
	case err != nil:
		return fmt.Errorf("unlock %q: %w", k.key, because(ctx, err))
	case owner != k.token:
		return ErrStolen
	}
	// The flaw: the lease may end here, and the next holder enter, before the DEL arrives.
	deleted, err := k.locker.rdb.Del(ctx, redisKey(k.key)).Result()
	switch {
	case err != nil:
		return fmt.Errorf("unlock %q: %w", k.key, because(ctx, err))
	case deleted == 0:
		return ErrExpired
	}
	return nil
}

// Key returns the name of the resource, as the caller gave it.
func (k *Lock) Key() string { return k.key }

// Token returns the random value that marks the key as this acquisition's.
func (k *Lock) Token() string { return k.token }

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

// newToken returns 128 random bits: no two acquisitions share a token.
func newToken() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(rand.Reader, b[:]); err != nil { // rand.Read would end the process instead
		return "", fmt.Errorf("lock token: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

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
