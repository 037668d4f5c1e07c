// Package saferelease is chapter 3: a Redis lock that frees only its own key.
//
// Chapter 2 read the key, saw its own token, and deleted the key a moment later. In that moment the lease
// could end and somebody else could enter. Here Redis compares and deletes in one step. The other half of the
// chapter is the same idea seen from the network: a request that is sent twice must not count twice.
//
// Guaranteed, on one Redis that keeps its data:
//   - Mutual exclusion while leases last: a key has one owner until its TTL ends or its owner deletes it.
//   - Unlock never deletes a key that belongs to another acquisition, whatever is late, lost or repeated.
//   - TryLock never answers "taken" because of its own earlier request.
//   - A crashed holder blocks others for one TTL at most.
//
// Not guaranteed:
//   - Work that outlives the TTL is not protected, and nobody tells it: see TestWorkOutlivesTTL.
//   - A nested Lock of the same key waits for itself.
//   - A failover that loses the key loses the lock.
//   - Calls may outlast their ctx while Redis hangs. With Options.ContextTimeoutEnabled a deadline is kept. Without it
//     go-redis waits for Options.ReadTimeout (5 s), and a cancel never interrupts a command in flight. Chapter 4 mends this.
package saferelease

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

// Chapter 2's SET answered "taken" when go-redis resent it after a lost reply: the key was there, put
// there by the first copy. No other caller can know our token, so finding it means that we hold the lock.
const acquireScript = `-- acquire: 'OK', or how many milliseconds the other owner has left
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 'OK' end
if redis.call('GET', KEYS[1]) == ARGV[1] then return 'OK' end
return redis.call('PTTL', KEYS[1])`

// Chapter 2's gap between GET and DEL is closed: Redis runs no other command while a script runs.
const releaseScript = `-- release: 1 deleted, 0 the key is gone, -1 it belongs to somebody else
local owner = redis.call('GET', KEYS[1])
if not owner then return 0 end
if owner ~= ARGV[1] then return -1 end
return redis.call('DEL', KEYS[1])`

// unlockBudget bounds one Unlock, and the clean-up after a failed attempt.
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
	leaseEnd   time.Time // no earlier than this can the key expire by itself

	turn     chan struct{} // one release at a time, and what it guards:
	released bool          // a definite answer to an Unlock has come
	resent   bool          // an Unlock went out whose reply never came
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
	k := &Lock{locker: l, key: key, token: token, turn: make(chan struct{}, 1)}
	k.leaseEnd = time.Now().Add(ttl.Truncate(time.Millisecond))
	reply, err := l.rdb.Eval(ctx, acquireScript, []string{redisKey(key)}, token, ttl.Milliseconds()).Result()
	if err != nil {
		// The request may have been executed, or may be still on its way. Left alone, the key would block
		// everybody for a TTL, so take it back. A copy that arrives after this stays: the error says so.
		k.abandon(ctx)
		return nil, 0, fmt.Errorf("lock %q may stay taken for up to %v: %w", key, ttl, because(ctx, err))
	}
	if remaining, taken := reply.(int64); taken {
		// PTTL rounds down, and answers -1 for a key without a TTL: then nobody knows how long it will stay.
		return nil, time.Duration(remaining+1) * time.Millisecond, ErrNotAcquired
	}
	return k, 0, nil
}

// abandon takes back what a failed attempt may have left. The caller does not wait for it beyond the end of its ctx: with a
// server that hangs it takes as long as an Unlock.
func (k *Lock) abandon(ctx context.Context) {
	done := make(chan error, 1)
	go func() { done <- k.Unlock(ctx) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Unlock frees the lock. It returns nil if this acquisition owned the key until now, ErrExpired or ErrStolen
// if it no longer did, and a Redis error if the outcome is unknown: then it may be called again.
// It works on a cancelled ctx, for "defer k.Unlock(ctx)", within two seconds of its own. A second call, and a call on a
// Lock that is nil or zero, return ErrNotHeld and send nothing.
func (k *Lock) Unlock(ctx context.Context) error {
	if k == nil || k.locker == nil {
		return ErrNotHeld
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockBudget)
	defer cancel()
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return fmt.Errorf("unlock %q: %w", k.key, ctx.Err())
	}
	if k.released {
		return ErrNotHeld
	}
	err := k.release(ctx)
	if err != nil && !errors.Is(err, ErrNotHeld) && !answered(err) {
		err = k.release(ctx) // go-redis must not resend it for us, see once
	}
	k.released = err == nil || errors.Is(err, ErrNotHeld)
	return err
}

// release sends one compare-and-delete.
func (k *Lock) release(ctx context.Context) error {
	cmd := once{redis.NewCmd(ctx, "EVAL", releaseScript, 1, redisKey(k.key), k.token)}
	_ = k.locker.rdb.Process(ctx, cmd)
	deleted, err := cmd.Int()
	switch {
	case err != nil:
		k.resent = k.resent || !answered(err)
		return fmt.Errorf("unlock %q: %w", k.key, because(ctx, err))
	case deleted == 1:
		return nil
	case k.resent && time.Now().Before(k.leaseEnd):
		return nil // the key could not expire yet: it was our own first copy that deleted it
	case deleted == 0:
		return ErrExpired
	default:
		return ErrStolen
	}
}

// Key returns the name of the resource, as the caller gave it.
func (k *Lock) Key() string { return k.key }

// Token returns the random value that marks the key as this acquisition's.
func (k *Lock) Token() string { return k.token }

// Do runs fn with ctx while it holds the lock, and unlocks when fn returns, panics or calls runtime.Goexit. It returns
// fn's error and Unlock's, joined: an ErrNotHeld in it says that fn outlived its lease.
func (l *Locker) Do(ctx context.Context, key string, ttl time.Duration, fn func(context.Context) error) (err error) {
	k, err := l.Lock(ctx, key, ttl)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Unlock(ctx)) }()
	return fn(ctx)
}

// once is a command that go-redis sends at most once. A release that is resent behind our back would find
// the key gone, and we could not tell our own first copy from a lease that had ended.
type once struct{ *redis.Cmd }

// NoRetry switches go-redis' own resending off.
func (once) NoRetry() bool { return true }

// answered reports whether err is the server's answer. Otherwise the request may or may not have been executed.
func answered(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

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
