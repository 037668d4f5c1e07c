package reentrant

import (
	"context"
	"time"
)

// The scripts, for explorations of what they do without the machinery around them.
const (
	AcquireScript = acquireScript
	ReleaseScript = releaseScript
	ExtendScript  = extendScript
)

// ExtendLate is an Extend that reaches the renewer when its handle may have been unlocked.
func ExtendLate(k *Lock, ttl time.Duration) error {
	return k.lease.extend(context.Background(), k.token, ttl)
}

// ExpireLate is the timer of a lease that fires while a renewal moves the deadline, and comes second.
func ExpireLate(k *Lock) { k.lease.expire() }

// EnterLate is what an acquisition does whose answer comes when its lease is over.
func EnterLate(ctx context.Context, l *Locker, key string, ttl time.Duration) error {
	k := &Lock{locker: l, key: key, token: "token", owner: ownerOf(ctx)}
	return k.enter(ctx, "token", time.Now().Add(-ttl), ttl)
}

// Leases counts what the owner in ctx knows of.
func Leases(ctx context.Context) int { return len(ownerOf(ctx).leases) }
