package failover

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// ErrStale says that the resource has seen a larger fencing token: a later holder has been there.
var ErrStale = errors.New("stale fencing token")

// Guard is a resource on one Redis that refuses holders that are too late. It compares and writes in one step, and a
// smaller token than the largest that it has seen gets nothing. An equal one is the same holder, whose own writes it does not
// put in order: a copy of one that arrives late undoes the next. The same rule as one statement of SQL stands in the
// chapter's README.
//
// It is as durable as its Redis. It needs no lock to be right about late holders; the lock is there so that holders don't meet.
// A Guard is safe for concurrent use.
type Guard struct{ rdb redis.UniversalClient }

// NewGuard returns a Guard that keeps its values in rdb. It sends nothing.
func NewGuard(rdb redis.UniversalClient) *Guard { return &Guard{rdb} }

// Value and largest token stand in one hash. The token never expires: a guard that forgets lets everybody in again.
// Lua counts in floating point, which is exact up to 2^53 grants.
const guardScript = `-- guard: {1, value}, or {0, the token that has been seen}
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or 0)
if tonumber(ARGV[1]) < seen then return {0, tostring(seen)} end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
if ARGV[2] then redis.call('HSET', KEYS[1], 'value', ARGV[2]) end
return {1, redis.call('HGET', KEYS[1], 'value') or ''}`

// Write stores a value, or returns ErrStale and stores nothing. Any other error is a Redis error, and the outcome is
// unknown: the same holder may write again.
func (g *Guard) Write(ctx context.Context, key, value string, fence int64) error {
	_, err := g.pass(ctx, key, fence, value)
	return err
}

// Read returns the value, "" if there is none, or ErrStale. It leaves its token: from now on no older holder can change what
// this one has read, and will write again.
func (g *Guard) Read(ctx context.Context, key string, fence int64) (string, error) {
	return g.pass(ctx, key, fence)
}

func (g *Guard) pass(ctx context.Context, key string, fence int64, value ...any) (string, error) {
	if fence < 1 {
		return "", fmt.Errorf("guard %q: %d is no fencing token", key, fence)
	}
	args := append([]any{fence}, value...)
	answer, err := g.rdb.Eval(ctx, guardScript, []string{"guard:" + key}, args...).Slice()
	if err != nil {
		return "", fmt.Errorf("guard %q: %w", key, err)
	}
	passed, _ := answer[0].(int64)
	text, _ := answer[1].(string)
	if passed == 0 {
		return "", fmt.Errorf("guard %q: %w: %d, and %s has been here", key, ErrStale, fence, text)
	}
	return text, nil
}
