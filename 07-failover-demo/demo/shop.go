package main

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	failover "example.com/redislock/07-failover-demo"
)

// items is the stock at the beginning of each sale.
const items = 100

// stockKey is where the shop keeps its stock.
const stockKey = "stock:flash-sale"

// shop is the resource that the lock protects: a number on a Redis of its own, which no act touches. Nothing but
// the lock keeps two workers from reading the same stock.
type shop interface {
	Read(ctx context.Context, fence int64) (int, error)
	Write(ctx context.Context, stock int, fence int64) error
}

func openShop(rdb *redis.Client, fenced bool) shop {
	if fenced {
		return fencedShop{failover.NewGuard(rdb)}
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

// fencedShop refuses whoever is older than somebody it has seen. It looks at the token of a reader too: a late write
// between a newer holder's read and its write would be overwritten, and one item sold twice.
type fencedShop struct{ guard *failover.Guard }

func (s fencedShop) Read(ctx context.Context, fence int64) (int, error) {
	text, err := s.guard.Read(ctx, stockKey, fence)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func (s fencedShop) Write(ctx context.Context, stock int, fence int64) error {
	return s.guard.Write(ctx, stockKey, strconv.Itoa(stock), fence)
}
