package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"example.com/redislock/internal/redistest"
)

// work is what everybody does under the lock, and all that they do.
const work = time.Millisecond

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
		raw(one, ttl), // alone, with nobody in the way
		lock03(one, ttl), lock04(one, ttl), lock05(one, ttl), lockRedsync(pools[:1], ttl), lockBsm(one, ttl), together, apart,
		named("06, five nodes", lock06(t, pools, ttl)), named("07, five nodes", lock07(t, pools, ttl)),
		named("redsync, five nodes, fail fast", lockRedsync(pools, ttl, failFast)),
	}
	all := make([]race, len(locks))
	users := make([][]process, len(locks))
	users[0] = []process{locks[0].join()}
	for i, l := range locks[1:] {
		for range s.waiters {
			users[i+1] = append(users[i+1], l.join())
		}
	}
	races := 0
	inTurns(s.races, len(locks), func(i int) {
		before := meter.requests(locks[i].sends)
		races++
		r := compete(t, name("race", races), users[i], s.race)
		settle()
		r.requests = meter.requests(locks[i].sends) - before
		all[i].add(r)
	})

	out := table{head: []string{
		"lock", "acquisitions, × alone", "requests each", "wait p50, ms", "p99", "max", "fairness",
	}}
	out.notef("Alone, one worker with the raw two round trips got it %.0f times a second.", median(all[0].rates))
	for i, r := range all[1:] {
		out.add(locks[i+1].name, "%.2f", median(against(r.rates, all[0].rates)), "%.1f", r.requests/r.acquired,
			"%.1f", median(r.waits), "%.0f", quantile(r.waits, 0.99), "%.0f", quantile(r.waits, 1), "%.2f", median(r.fairness))
		out.failed(locks[i+1].name, r.failed, r.failed+r.acquired)
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
