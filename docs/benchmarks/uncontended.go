package main

import (
	"runtime"
	"time"

	"example.com/redislock/internal/redistest"
)

// uncontended takes a free lock and gives it back, again and again.
func uncontended(t redistest.T, s scale) table {
	one := start(t, 1)
	pools, meter := one.pools(t), one.meter(t)
	locks := []lock{
		raw("raw", pools[0], ttl, directly), raw("raw, in goroutines", pools[0], ttl, aside),
		lock03(pools[0], ttl), lock04(pools[0], ttl), lock05(pools[0], ttl), lock06(t, pools, ttl), lock07(t, pools, ttl),
		lockRedsync(pools, ttl), lockBsm(pools[0], ttl), lockRueidis(t, one[0].Addr(), ttl),
	}
	type figures struct{ time, allocations, requests, bytes []float64 }
	all := make([]figures, len(locks))
	users := make([]process, len(locks))
	for i, l := range locks {
		users[i] = l.join()
		must(t, users[i].once(ctx, "warm")) // connections are there, and scripts
	}
	inTurns(s.rounds, len(locks), func(i int) {
		requests, bytes := meter.requests(locks[i].sends), meter.received()
		before := memory()
		began := time.Now()
		for range s.batch {
			must(t, users[i].once(ctx, "order:1"))
		}
		took := time.Since(began)
		var after runtime.MemStats
		runtime.ReadMemStats(&after)
		per := func(total float64) float64 { return total / float64(s.batch) }
		f := &all[i]
		f.time = append(f.time, per(took.Seconds()))
		f.allocations = append(f.allocations, per(float64(after.Mallocs-before.Mallocs)))
		f.bytes = append(f.bytes, per(meter.received()-bytes))
		f.requests = append(f.requests, per(meter.requests(locks[i].sends)-requests))
	})

	out := table{head: []string{"lock", "time, × raw", "allocations", "requests", "bytes sent"}}
	ratio, allocations := map[string]float64{}, map[string]float64{}
	for i, l := range locks {
		f := all[i]
		ratio[l.name], allocations[l.name] = median(against(f.time, all[0].time)), median(f.allocations)
		name := l.name
		switch name {
		case "raw":
			out.notef("Raw took %.0f µs.", 1e6*median(f.time))
		case "06", "07":
			name += ", one node"
		}
		out.add(name, "%.2f", ratio[l.name], "%.0f", allocations[l.name], "%.2f", median(f.requests), "%.0f", median(f.bytes))
	}
	best := min(allocations["redsync"], allocations["bsm/redislock"], allocations["rueidislock"])
	out.budget("time of 03, × raw", ratio["03"], 1.10)
	out.budget("allocations of 03, × the best peer's", allocations["03"]/best, 1)
	out.budget("time of 04, × raw", ratio["04"], 1.25)
	out.budget("time of 04, × raw, in goroutines", ratio["04"]/ratio["raw, in goroutines"], 1.25)
	return out
}
