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

// Leases counts what the owner in ctx knows of.
func Leases(ctx context.Context) int { return len(ownerOf(ctx).leases) }
