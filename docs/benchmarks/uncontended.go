package main

import (
	"runtime"
	"time"

	"example.com/redislock/internal/redistest"
)

// uncontended takes a free lock and gives it back, again and again: with all cores, as programs do, and with one core for Go, so
// that a goroutine that starts takes none from the server.
func uncontended(t redistest.T, s scale) table {
	one := start(t, 1)
	pools, meter := one.pools(t), one.meter(t)
	locks := []lock{
		raw("raw", pools[0], ttl, directly), raw("raw, in goroutines", pools[0], ttl, aside),
		lock03(pools[0], ttl), lock04(pools[0], ttl), lock05(pools[0], ttl), lock06(t, pools, ttl), lock07(t, pools, ttl),
		lockRedsync(pools, ttl), lockBsm(pools[0], ttl), lockRueidis(t, one[0].Addr(), ttl),
	}
	type figures struct{ time, oneCore, allocations, requests, bytes []float64 }
	all := make([]figures, len(locks))
	users := make([]process, len(locks))
	for i, l := range locks {
		users[i] = l.join()
		must(t, users[i].once(ctx, "warm")) // connections are there, and scripts
	}
	per := func(total float64) float64 { return total / float64(s.batch) }
	batch := func(i int) (microseconds, allocations float64) {
		before := memory()
		began := time.Now()
		for range s.batch {
			must(t, users[i].once(ctx, "order:1"))
		}
		took := time.Since(began)
		var after runtime.MemStats
		runtime.ReadMemStats(&after)
		return per(1000 * ms(took)), per(float64(after.Mallocs - before.Mallocs))
	}
	inTurns(s.rounds, len(locks), func(i int) {
		requests, bytes := meter.requests(locks[i].sends), meter.received()
		took, allocations := batch(i)
		f := &all[i]
		f.time = append(f.time, took)
		f.allocations = append(f.allocations, allocations)
		f.bytes = append(f.bytes, per(meter.received()-bytes))
		f.requests = append(f.requests, per(meter.requests(locks[i].sends)-requests))
		cores := runtime.GOMAXPROCS(1)
		defer runtime.GOMAXPROCS(cores)
		took, _ = batch(i)
		f.oneCore = append(f.oneCore, took)
	})

	out := table{head: []string{"lock", "time, × raw", "on one core", "allocations", "requests", "bytes sent"}}
	out.notef("Raw took %.0f µs, and %.0f on one core.", median(all[0].time), median(all[0].oneCore))
	ratio, oneCore, allocations := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for i, l := range locks {
		f, name := all[i], l.name
		ratio[name], oneCore[name] = median(against(f.time, all[0].time)), median(against(f.oneCore, all[0].oneCore))
		allocations[name] = median(f.allocations)
		if name == "06" || name == "07" {
			name += ", one node"
		}
		out.add(name, "%.2f", ratio[l.name], "%.2f", oneCore[l.name], "%.0f", allocations[l.name],
			"%.2f", median(f.requests), "%.0f", median(f.bytes))
	}
	best := min(allocations["redsync"], allocations["bsm/redislock"], allocations["rueidislock"])
	out.budget("time of 03, × raw", ratio["03"], 1.10)
	out.budget("allocations of 03, × the best peer's", allocations["03"]/best, 1)
	out.budget("time of 04, × raw", ratio["04"], 1.25)
	out.budget("time of 04, × raw, on one core", oneCore["04"], 1.25)
	return out
}
