package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// items is the stock at the beginning of each sale.
const items = 100

// stockKey is where the shop keeps its stock.
const stockKey = "stock:flash-sale"

// errStale says that the shop has refused a write, because it has seen a newer holder.
var errStale = errors.New("stale: a newer holder has written")

// shop is the resource that the lock protects: a number on a Redis of its own, which no act touches. Nothing but
// the lock keeps two workers from reading the same stock.
type shop interface {
	Read(ctx context.Context, fence int64) (int, error)
	Write(ctx context.Context, stock int, fence int64) error
}

func openShop(addr string, fenced bool) shop {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	if fenced {
		return fencedShop{rdb}
	}
	return plainShop{rdb}
}

// plainShop takes every write.
type plainShop struct{ rdb *redis.Client }

func (s plainShop) Read(ctx context.Context, _ int64) (int, error) {
	return s.rdb.Get(ctx, stockKey).Int()
}

func (s plainShop) Write(ctx context.Context, stock int, _ int64) error {
	return s.rdb.Set(ctx, stockKey, stock, 0).Err()
}

// fencedShop refuses whoever is older than somebody it has seen. It looks at the token of a reader too: a holder that
// has read and not yet written must not be overtaken by a late write either.
type fencedShop struct{ rdb *redis.Client }

const fenceScript = `-- fence: the stock, or -1 for a token that is too old
if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[2]) or '0') then return -1 end
redis.call('SET', KEYS[2], ARGV[1])
if ARGV[2] ~= '' then redis.call('SET', KEYS[1], ARGV[2]) end
return tonumber(redis.call('GET', KEYS[1]))`

func (s fencedShop) Read(ctx context.Context, fence int64) (int, error) {
	return s.pass(ctx, fence, "")
}

func (s fencedShop) Write(ctx context.Context, stock int, fence int64) error {
	_, err := s.pass(ctx, fence, strconv.Itoa(stock))
	return err
}

func (s fencedShop) pass(ctx context.Context, fence int64, stock string) (int, error) {
	n, err := s.rdb.Eval(ctx, fenceScript, []string{stockKey, stockKey + ":fence"}, fence, stock).Int()
	if n < 0 {
		return 0, errStale
	}
	return n, err
}
