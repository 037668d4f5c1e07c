package main

import (
	"slices"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"

	"example.com/redislock/internal/redistest"
	"example.com/redislock/internal/wire"
)

// failFast lets redsync return when a majority has answered, as the chapters' locks do.
var failFast = redsync.WithFailFast(true)

// slowness is what each answer of a slow node takes longer.
const slowness = 20 * time.Millisecond

// weather is what the five nodes are like.
type weather struct {
	name        string
	pools       []redis.UniversalClient
	begin, calm func()
}

func weathers(t redistest.T, nodes servers) []weather {
	direct, partly := nodes.pools(t), nodes.pools(t)
	for i := range 2 {
		proxy := redistest.NewProxy(t, nodes[i].Addr())
		proxy.Delay(wire.Any, slowness)
		partly[i] = connect(t, proxy.Addr())
	}
	last := nodes[len(nodes)-1]
	nothing := func() {}
	return []weather{
		{"healthy", direct, nothing, nothing},
		{"one hung", direct, last.Pause, last.Resume},
		{"two slow", partly, nothing, nothing},
	}
}

// rival is a lock in some weather, and what came of it.
type rival struct {
	lock
	weather
	times                        []float64 // of one acquisition and release, in milliseconds
	done, failed, left, requests float64
}

// fiveNodes takes and frees locks on five nodes, while all are well, while one hangs, and while two are slow.
func fiveNodes(t redistest.T, s scale) table {
	nodes := start(t, 5)
	meter := nodes.meter(t)
	three := weathers(t, nodes)
	var all []*rival
	for _, w := range three {
		for _, l := range []lock{
			lock06(t, w.pools, ttl), lock07(t, w.pools, ttl), lockRedsync(w.pools, ttl),
			named("redsync, fail fast", lockRedsync(w.pools, ttl, failFast)),
		} {
			all = append(all, &rival{lock: l, weather: w})
		}
	}
	bare := &rival{lock: raw("raw", three[0].pools[0], ttl, directly), weather: three[0]} // on one node that is well
	all = append(all, bare)
	for _, r := range all {
		for n := range 20 {
			_ = takeAndFree(r.join(), name("warm", n))
		}
	}
	settle()
	_ = meter.leftBehind()
	inTurns(s.fiveRounds, len(all), func(i int) { all[i].measure(meter, s) })

	out := table{head: []string{"lock", "requests"}}
	locks := len(all) / len(three)
	ratio := func(w, l int) float64 { return median(against(all[w*locks+l].times, bare.times)) }
	for _, w := range three {
		out.head = append(out.head, w.name+", × raw")
	}
	for _, w := range three {
		out.head = append(out.head, "keys left, "+w.name)
	}
	for l := range locks {
		cells := []any{"%.1f", all[l].requests / all[l].done}
		for w := range three {
			cells = append(cells, "%.1f", ratio(w, l))
		}
		for w := range three {
			r := all[w*locks+l]
			cells = append(cells, "%.1f%%", 100*r.left/r.done)
		}
		out.add(all[l].lock.name, cells...)
	}
	for _, r := range all {
		out.failed(r.lock.name+", "+r.weather.name+",", r.failed, r.done)
	}
	per := func(a, b *rival) float64 { return median(against(a.times, b.times)) }
	out.budget("06, × redsync", per(all[0], all[2]), 1)
	out.budget("06, × redsync, fail fast", per(all[0], all[3]), 1)
	out.budget("06 with one hung, × 06 healthy", per(all[locks], all[0]), 2)
	return out
}

// measure takes a batch of locks, or fewer if they take long.
func (r *rival) measure(m meter, s scale) {
	user := r.join()
	before := m.requests(r.sends)
	r.begin()
	began, done := time.Now(), 0
	for done < s.fiveBatch && time.Since(began) < s.fiveTime {
		// Another key each time: what is late must not disturb the next.
		if takeAndFree(user, name("order", done)) != nil {
			r.failed++
		}
		done++
	}
	r.times = append(r.times, ms(time.Since(began))/float64(done))
	r.calm()
	settle()
	r.done += float64(done)
	r.requests += m.requests(r.sends) - before
	r.left += m.leftBehind()
}

func takeAndFree(p process, key string) error {
	free, err := p.wait(ctx, key)
	if err != nil {
		return err
	}
	return free(ctx)
}

// leftBehind removes the keys of locks that nobody holds any more, and says how many there were: those that are still there
// after a while in which a release could have come.
func (m meter) leftBehind() float64 {
	n := m.keys()
	for end := time.Now().Add(10 * slowness); n > 0 && time.Now().Before(end); n = m.keys() {
		time.Sleep(slowness)
	}
	for _, c := range m.truth {
		must(m.t, c.FlushAll(ctx).Err())
	}
	return float64(n)
}

// keys counts those of locks. The counts of chapter 7 are there on purpose.
func (m meter) keys() (n int) {
	for _, c := range m.truth {
		all, err := c.Keys(ctx, "*").Result()
		must(m.t, err)
		n += len(slices.DeleteFunc(all, func(key string) bool { return strings.HasPrefix(key, "fence:") }))
	}
	return n
}
