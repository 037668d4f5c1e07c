package spotthebug

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

type nodes = []redis.UniversalClient

// takeMajority takes the lock on most of the nodes. A node that is down can't vote.
func takeMajority(ctx context.Context, all nodes, key, token string) bool {
	yes, reached := 0, 0
	for _, rdb := range all {
		ok, err := take(ctx, rdb, key, token)
		if err != nil {
			continue
		}
		reached++
		if ok {
			yes++
		}
	}
	return yes >= reached/2+1
}

// takeMajorityMended counts a node that is down as a no.
func takeMajorityMended(ctx context.Context, all nodes, key, token string) bool {
	return votes(ctx, all, key, token) >= len(all)/2+1
}

func votes(ctx context.Context, all nodes, key, token string) int {
	yes := 0
	for _, rdb := range all {
		if ok, err := take(ctx, rdb, key, token); ok && err == nil {
			yes++
		}
	}
	return yes
}

// validFor takes the lock and says how long it is valid, 0 if it is not ours. wall is the machine's clock.
func validFor(ctx context.Context, all nodes, key, token string, wall func() time.Time) time.Duration {
	start := wall().UnixMilli()
	yes := votes(ctx, all, key, token)
	elapsed := time.Duration(wall().UnixMilli()-start) * time.Millisecond
	if yes < len(all)/2+1 {
		return 0
	}
	return max(0, ttl-elapsed-drift)
}

// drift is how far two clocks may move apart during one TTL.
const drift = ttl/100 + 2*time.Millisecond

// validForMended measures with Go's monotonic clock, which nobody can set.
func validForMended(ctx context.Context, all nodes, key, token string) time.Duration {
	start := time.Now()
	yes := votes(ctx, all, key, token)
	if yes < len(all)/2+1 {
		return 0
	}
	return max(0, ttl-time.Since(start)-drift)
}

// lockMajority takes the lock on most of the nodes, and reports whether it did so in time.
func lockMajority(ctx context.Context, all nodes, key, token string) bool {
	start := time.Now()
	yes := votes(ctx, all, key, token)
	return yes >= len(all)/2+1 && time.Since(start) < ttl-drift
}

// validity is what is left of a lease, with an allowance for clocks that don't run equally fast.
func validity(elapsed time.Duration) time.Duration {
	return ttl - elapsed + drift
}

// validityMended lets the doubt shorten the lease.
func validityMended(elapsed time.Duration) time.Duration {
	return ttl - elapsed - drift
}

// takeInTurn asks one node after the other. The clients give up on a node after two seconds.
func takeInTurn(ctx context.Context, all nodes, key, token string) bool {
	yes := 0
	for _, rdb := range all {
		if ok, _ := take(ctx, rdb, key, token); ok {
			yes++
		}
	}
	return yes >= len(all)/2+1
}

// takeAtOnce asks all nodes at once, gives each 50 ms, and returns as soon as the majority is certain.
func takeAtOnce(ctx context.Context, all nodes, key, token string) bool {
	answers := make(chan bool, len(all))
	for _, rdb := range all {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			ok, err := take(ctx, rdb, key, token)
			answers <- ok && err == nil
		}()
	}
	yes, no, quorum := 0, 0, len(all)/2+1
	for yes < quorum && no <= len(all)-quorum {
		if <-answers {
			yes++
		} else {
			no++
		}
	}
	return yes >= quorum
}

// takeOrGiveBack takes the lock on most of the nodes, or leaves nothing behind.
func takeOrGiveBack(ctx context.Context, all nodes, key, token string) bool {
	if votes(ctx, all, key, token) >= len(all)/2+1 {
		return true
	}
	for _, rdb := range all {
		_ = release(ctx, rdb, key, token)
	}
	return false
}

// takeOrGiveBackMended gives back on a context of its own: the caller's has often ended just now.
func takeOrGiveBackMended(ctx context.Context, all nodes, key, token string) bool {
	if votes(ctx, all, key, token) >= len(all)/2+1 {
		return true
	}
	for _, rdb := range all {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), 50*time.Millisecond)
		_ = release(own, rdb, key, token)
		cancel()
	}
	return false
}
