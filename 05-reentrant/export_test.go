package reentrant

import "context"

// The scripts, for explorations of what they do without the machinery around them.
const (
	AcquireScript = acquireScript
	ReleaseScript = releaseScript
	ExtendScript  = extendScript
)

// Leases counts what the owner in ctx knows of.
func Leases(ctx context.Context) int { return len(ownerOf(ctx).leases) }
