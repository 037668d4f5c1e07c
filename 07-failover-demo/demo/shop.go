package main

import (
	"context"
	"errors"

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
	Read(ctx context.Context) (int, error)
	Write(ctx context.Context, stock int, fence int64) error
}

// plainShop takes every write.
type plainShop struct{ rdb *redis.Client }

func (s plainShop) Read(ctx context.Context) (int, error) { return s.rdb.Get(ctx, stockKey).Int() }

func (s plainShop) Write(ctx context.Context, stock int, _ int64) error {
	return s.rdb.Set(ctx, stockKey, stock, 0).Err()
}
