// Package choosing is what often does without a lock, for docs/choosing.md: four ways in which the place that keeps the
// data decides, in one step. The page shows each of them as SQL too.
package choosing

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// sell takes one item, if there is one left.
func sell(ctx context.Context, rdb redis.UniversalClient, item string) (sold bool, err error) {
	const script = `-- sell
if tonumber(redis.call('GET', KEYS[1]) or '0') < 1 then return 0 end
redis.call('DECR', KEYS[1])
return 1`
	return rdb.Eval(ctx, script, []string{item}).Bool()
}

// sellOptimistically reads, decides in Go, and writes only if nobody has written meanwhile. Otherwise it starts again.
func sellOptimistically(ctx context.Context, rdb redis.UniversalClient, item string) (sold bool, err error) {
	try := func(tx *redis.Tx) error {
		left, err := tx.Get(ctx, item).Int()
		if err != nil {
			return err
		}
		if sold = left > 0; !sold {
			return nil
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			return p.Set(ctx, item, left-1, 0).Err()
		})
		return err
	}
	for ctx.Err() == nil {
		if err = rdb.Watch(ctx, try, item); !errors.Is(err, redis.TxFailedErr) {
			return sold && err == nil, err
		}
	}
	return false, ctx.Err()
}

// move takes an order from one state to the next. Of all that try, one succeeds.
func move(ctx context.Context, rdb redis.UniversalClient, order, from, to string) (moved bool, err error) {
	const script = `-- move
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`
	return rdb.Eval(ctx, script, []string{order}, from, to).Bool()
}

// pay adds an amount to an account, once for each request id, however often the request is sent.
func pay(ctx context.Context, rdb redis.UniversalClient, account, request string, cents int) (first bool, err error) {
	const script = `-- pay
if redis.call('SADD', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('INCRBY', KEYS[1], ARGV[2])
return 1`
	return rdb.Eval(ctx, script, []string{account, account + ":requests"}, request, cents).Bool()
}
