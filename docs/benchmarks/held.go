package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"example.com/redislock/internal/redistest"
)

// held holds many locks at once, and counts what it takes to keep them. Those that don't renew are not here: it costs
// them nothing.
func held(t redistest.T, s scale) table {
	nodes := start(t, 3)
	pools, addr := nodes.pools(t), nodes[0].Addr()
	one, meter := pools[0], nodes.meter(t)
	locks := []lock{
		lock04(one, s.leaseTTL), lock05(one, s.leaseTTL), lockRueidis(t, addr, s.leaseTTL),
		named("06, three nodes", lock06(t, pools, s.leaseTTL)),
	}
	out := table{head: []string{"lock", "KiB each", "goroutines each", "requests a second", "× one each interval"}}
	interval := s.leaseTTL / 3
	for _, l := range locks {
		user := l.join()
		hold(user, 20, 0, func() {}) // connections are there
		calm := runtime.NumGoroutine()
		before := memory()
		lost := hold(user, s.leases, interval, func() {
			after := memory()
			each := func(total float64) float64 { return total / float64(s.leases) }
			used := float64(after.HeapAlloc+after.StackInuse) - float64(before.HeapAlloc+before.StackInuse)
			renewers := runtime.NumGoroutine() - calm
			sent := meter.requests(l.sends)
			began := time.Now()
			time.Sleep(interval)
			rate := (meter.requests(l.sends) - sent) / time.Since(began).Seconds()
			out.add(l.name, "%.1f", each(used)/1024, "%.1f", each(float64(renewers)),
				"%.0f", rate, "%.2f", rate*interval.Seconds()/float64(s.leases))
		})
		out.failed(l.name, lost, float64(s.leases))
		settle()
	}
	return out
}

// hold takes n locks, evenly over some time so that their renewals don't all come at once, and frees them after it has
// called f. It returns how many could not be had or were lost.
func hold(user process, n int, over time.Duration, f func()) float64 {
	free := make([]unlock, n)
	began := time.Now()
	var failed atomic.Int64
	fewAtATime(n, func(i int) {
		time.Sleep(time.Until(began.Add(over * time.Duration(i) / time.Duration(n))))
		if k, err := user.wait(ctx, name("order", i)); err == nil {
			free[i] = k
		}
	})
	f()
	fewAtATime(n, func(i int) {
		if free[i] == nil || free[i](ctx) != nil {
			failed.Add(1)
		}
	})
	return float64(failed.Load())
}

func fewAtATime(n int, f func(i int)) {
	const few = 20
	var all sync.WaitGroup
	for first := range few {
		all.Go(func() {
			for i := first; i < n; i += few {
				f(i)
			}
		})
	}
	all.Wait()
}
