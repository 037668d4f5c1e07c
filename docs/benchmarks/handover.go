package main

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"example.com/redislock/internal/redistest"
)

// handOver measures how long a lock stays free although somebody waits for it: from the call that releases it until the
// next one has it.
func handOver(t redistest.T, s scale) table {
	nodes := start(t, 5)
	pools, addr := nodes.pools(t), nodes[0].Addr()
	one, meter := pools[0], nodes.meter(t)
	locks := []lock{
		lock03(one, ttl), named("03, short pauses", lock03(one, ttl, short)), lock04(one, ttl), lock05(one, ttl),
		lockRedsync(pools[:1], ttl), lockBsm(one, ttl), lockRueidis(t, addr, ttl),
		named("06, five nodes", lock06(t, pools, ttl)), named("07, five nodes", lock07(t, pools, ttl)),
		named("redsync, five nodes", lockRedsync(pools, ttl)),
	}
	bare, rawTime := raw("raw", one, ttl, directly).join(), []float64{}
	holders, others := make([]process, len(locks)), make([]process, len(locks))
	for i, l := range locks {
		holders[i], others[i] = l.join(), l.join()
	}
	gaps := make([][]float64, len(locks))
	failed, requests := make([]float64, len(locks)), make([]float64, len(locks))
	inTurns(s.handovers, len(locks), func(i int) {
		for range 10 {
			began := time.Now()
			must(t, bare.once(ctx, "raw"))
			rawTime = append(rawTime, ms(time.Since(began)))
		}
		before := meter.requests(locks[i].sends)
		var mu sync.Mutex
		var all sync.WaitGroup
		for pair := range s.pairs {
			all.Go(func() {
				gap, err := pass(holders[i], others[i], name(locks[i].name, pair), s.hold/2+rand.N(s.hold))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed[i]++
					return
				}
				gaps[i] = append(gaps[i], ms(gap))
			})
		}
		all.Wait()
		settle()
		requests[i] += meter.requests(locks[i].sends) - before
	})

	out := table{head: []string{"lock", "p50, ms", "p90", "max", "p50, × raw", "requests"}}
	for i, l := range locks {
		g := gaps[i]
		pairs := failed[i] + float64(len(g))
		out.add(l.name, "%.1f", median(g), "%.0f", quantile(g, 0.9), "%.0f", quantile(g, 1), "%.0f", median(g)/median(rawTime),
			"%.0f", requests[i]/pairs)
		out.failed(l.name, failed[i], pairs)
	}
	return out
}

// pass lets one process hold the lock for a while, in which the other begins to wait.
func pass(holder, waiter process, key string, hold time.Duration) (gap time.Duration, err error) {
	free, err := holder.wait(ctx, key)
	if err != nil {
		return 0, err
	}
	var got time.Time
	done := make(chan error, 1)
	go func() {
		free, err := waiter.wait(ctx, key)
		got = time.Now()
		if err == nil {
			err = free(ctx)
		}
		done <- err
	}()
	time.Sleep(hold)
	released := time.Now()
	err = errors.Join(free(ctx), <-done)
	return got.Sub(released), err
}
