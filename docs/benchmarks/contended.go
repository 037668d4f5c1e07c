package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	saferelease "example.com/redislock/03-safe-release"
	"example.com/redislock/internal/redistest"
)

// work is what everybody does under the lock, and all that they do.
const work = time.Millisecond

// short is for a lock that is held for so short a time.
var short = saferelease.WithBackoff(time.Millisecond, 20*time.Millisecond)

// contended lets many want one lock, and come back as soon as they have had it.
func contended(t redistest.T, s scale) table {
	nodes := start(t, 5)
	pools, addr := nodes.pools(t), nodes[0].Addr()
	one, meter := pools[0], nodes.meter(t)
	apart, together := lockRueidis(t, addr, ttl), lockRueidis(t, addr, ttl)
	apart.name += ", each its process"
	together.name += ", one process"
	only := together.join()
	together.join = func() process { return only }
	locks := []lock{
		lock03(one, ttl), named("03, short pauses", lock03(one, ttl, short)), lock04(one, ttl), lock05(one, ttl),
		lockRedsync(pools[:1], ttl), lockBsm(one, ttl), together, apart,
		named("06, five nodes", lock06(t, pools, ttl)), named("07, five nodes", lock07(t, pools, ttl)),
		named("redsync, five nodes, fail fast", lockRedsync(pools, ttl, failFast)),
	}
	alone := []process{raw("raw", one, ttl, directly).join()}
	all := make([]race, len(locks))
	users := make([][]process, len(locks))
	for i, l := range locks {
		for range s.waiters {
			users[i] = append(users[i], l.join())
		}
	}
	races, free := 0, race{}
	inTurns(s.races, len(locks), func(i int) {
		races++
		free.add(compete(t, name("alone", races), alone, s.race/10))
		before := meter.requests(locks[i].sends)
		r := compete(t, name("race", races), users[i], s.race)
		settle()
		r.requests = meter.requests(locks[i].sends) - before
		all[i].add(r)
	})

	out := table{head: []string{
		"lock", "acquisitions, × alone", "requests each", "wait p50, ms", "p99", "max", "fairness",
	}}
	out.notef("Alone got it %.0f times a second.", mean(free.rates))
	for i, r := range all {
		out.add(locks[i].name, "%.2f", mean(r.rates)/mean(free.rates), "%.1f", r.requests/r.acquired,
			"%.1f", median(r.waits), "%.0f", quantile(r.waits, 0.99), "%.0f", quantile(r.waits, 1), "%.2f", median(r.fairness))
		out.failed(locks[i].name, r.failed, r.failed+r.acquired)
	}
	return out
}

// race is what came of some time in which all wanted the lock.
type race struct {
	rates, fairness, waits []float64 // acquisitions a second; Jain's index of how often each had it; milliseconds
	acquired, requests     float64
	failed                 float64 // calls that ended in an error, before the time was up
}

func (r *race) add(o race) {
	r.rates, r.fairness, r.waits = append(r.rates, o.rates...), append(r.fairness, o.fairness...), append(r.waits, o.waits...)
	r.acquired += o.acquired
	r.requests += o.requests
	r.failed += o.failed
}

// compete lets the processes race. Those that still wait when the time is up count with the time that they have waited.
func compete(t redistest.T, key string, users []process, length time.Duration) (r race) {
	ctx, cancel := context.WithCancel(ctx) // a deadline would break requests in flight
	var all sync.WaitGroup
	var mu sync.Mutex
	var inside atomic.Bool
	had := make([]float64, len(users))
	for i, user := range users {
		all.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				free, err := user.wait(ctx, key)
				over := ctx.Err() != nil
				mu.Lock()
				r.waits = append(r.waits, ms(time.Since(began)))
				if err == nil && !over {
					had[i]++
				}
				mu.Unlock()
				if err == nil {
					if !inside.CompareAndSwap(false, true) {
						t.Errorf("two holders")
					}
					time.Sleep(work)
					inside.Store(false)
					err = free(context.Background())
				}
				if err != nil && !over {
					mu.Lock()
					r.failed++
					mu.Unlock()
				}
			}
		})
	}
	time.Sleep(length)
	cancel()
	all.Wait()
	for _, n := range had {
		r.acquired += n
	}
	r.rates = []float64{r.acquired / length.Seconds()}
	r.fairness = []float64{jain(had)}
	return r
}
