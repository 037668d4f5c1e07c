package monitor

import (
	"context"
	"errors"
	"time"
)

// Handle is one acquisition of any chapter: its *Lock.
type Handle interface {
	Unlock(ctx context.Context) error
	Key() string
}

// Source is the Locker of any chapter, with that chapter's own handles.
type Source[H Handle] interface {
	TryLock(ctx context.Context, key string, ttl time.Duration) (H, error)
	Lock(ctx context.Context, key string, ttl time.Duration) (H, error)
}

// Errors are the sentinel errors of the wrapped locker's package. Those that it does not have stay nil.
type Errors struct{ NotAcquired, NotHeld, Expired, Stolen error }

// Locker is a wrapped locker. It is a Source itself.
type Locker[H Handle] struct {
	source Source[H]
	errs   Errors
	meter  *meter
}

// Wrap lets m count what locker does, under the given name: the kind of lock, such as "orders", never a key. Several
// lockers may share a name.
func Wrap[H Handle](m *Monitor, name string, locker Source[H], errs Errors) *Locker[H] {
	return &Locker[H]{source: locker, errs: errs, meter: m.meter(name)}
}

// Lock is one acquisition, with the wrapped chapter's own handle inside.
type Lock[H Handle] struct {
	handle H
	hold   hold
}

// TryLock is the wrapped locker's TryLock.
func (l *Locker[H]) TryLock(ctx context.Context, key string, ttl time.Duration) (*Lock[H], error) {
	return l.acquire(ctx, key, ttl, l.source.TryLock)
}

// Lock is the wrapped locker's Lock.
func (l *Locker[H]) Lock(ctx context.Context, key string, ttl time.Duration) (*Lock[H], error) {
	return l.acquire(ctx, key, ttl, l.source.Lock)
}

type acquire[H Handle] func(ctx context.Context, key string, ttl time.Duration) (H, error)

func (l *Locker[H]) acquire(ctx context.Context, key string, ttl time.Duration, call acquire[H]) (*Lock[H], error) {
	l.meter.waiting.Add(1)
	defer l.meter.waiting.Add(-1)
	gaveUp, start := ctx.Err() != nil, time.Now()
	h, err := call(ctx, key, ttl)
	l.meter.attempts[l.errs.attempt(err, gaveUp)].Inc()
	if err != nil {
		return nil, err
	}
	k := &Lock[H]{handle: h, hold: hold{meter: l.meter, errs: &l.errs, lease: leaseOf(h), ttl: ttl}}
	k.hold.begin(start)
	return k, nil
}

// leaseOf returns the context that ends with the lease, or nil before chapter 4.
func leaseOf(handle any) context.Context {
	if lease, ok := handle.(interface{ Context() context.Context }); ok {
		return lease.Context()
	}
	return nil
}

// attempt says how a call of Lock or TryLock ended.
func (e *Errors) attempt(err error, gaveUp bool) int {
	switch {
	case err == nil:
		return acquired
	case gaveUp || errors.Is(err, context.Canceled):
		return cancelled
	case !errors.Is(err, e.NotAcquired):
		return failed // a deadline that passes while Redis gives no answer at all is here too
	case errors.Is(err, context.DeadlineExceeded):
		return timedOut
	}
	return taken
}

// Unlock is the handle's Unlock. Whatever comes of it, the first call is the end of the hold.
func (k *Lock[H]) Unlock(ctx context.Context) error {
	if k == nil {
		var none H
		return none.Unlock(ctx)
	}
	k.hold.end() // comes first: Unlock ends the lease's context
	err := k.handle.Unlock(ctx)
	k.hold.meter.unlocks[k.hold.errs.unlock(err)].Inc()
	return err
}

// unlock says how a call of Unlock ended.
func (e *Errors) unlock(err error) int {
	switch {
	case err == nil:
		return released
	case errors.Is(err, e.Expired):
		return expired
	case errors.Is(err, e.Stolen):
		return stolen
	case errors.Is(err, e.NotHeld):
		return notHeld
	}
	return unknown
}

// Key returns the name of the resource, as the caller gave it.
func (k *Lock[H]) Key() string { return k.handle.Key() }

// Handle returns the chapter's own handle, for what only that has: Context, Extend, Fence. Unlock the Lock, not the handle.
func (k *Lock[H]) Handle() H { return k.handle }

// Do runs fn while it holds the lock, and unlocks when fn returns, panics or calls runtime.Goexit. It does what the
// chapters' own Do does, which takes its lock past the monitor: from chapter 4 on the context of fn ends with the lease,
// and the errors of fn, of a lost lease and of Unlock are returned together.
func (l *Locker[H]) Do(ctx context.Context, key string, ttl time.Duration, fn func(context.Context) error) (err error) {
	k, err := l.Lock(ctx, key, ttl)
	if err != nil {
		return err
	}
	work, end := context.WithCancelCause(ctx)
	lease := leaseOf(k.handle)
	if lease != nil {
		defer context.AfterFunc(lease, func() { end(context.Cause(lease)) })()
	}
	defer func() {
		var lost error
		if lease != nil && lease.Err() != nil {
			lost = context.Cause(lease)
		}
		err = errors.Join(err, lost, k.Unlock(ctx))
		end(nil)
	}()
	return fn(work)
}
