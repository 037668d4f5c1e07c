package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/redislock/internal/redistest"
)

var ctx = context.Background()

// ttl is long: no lease ends in an experiment.
const ttl = 30 * time.Second

// connect makes the connection pool that the locks share. Without ContextTimeoutEnabled a lock that bounds its requests by
// a ctx, as redsync does, waits much longer for a node that hangs.
func connect(t redistest.T, addr string) redis.UniversalClient {
	c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 100, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// servers are the Redis servers of an experiment.
type servers []*redistest.Server

func start(t redistest.T, n int) (all servers) {
	for range n {
		all = append(all, redistest.Start(t))
	}
	return all
}

// pools connects to each of the servers.
func (all servers) pools(t redistest.T) (pools []redis.UniversalClient) {
	for _, s := range all {
		pools = append(pools, connect(t, s.Addr()))
	}
	return pools
}

// meter reads what the servers say about themselves, over connections of its own.
type meter struct {
	t     redistest.T
	truth []*redis.Client
}

func (all servers) meter(t redistest.T) meter {
	m := meter{t: t}
	for _, s := range all {
		m.truth = append(m.truth, s.Client(t))
	}
	return m
}

// requests is how often the servers have been sent one of the commands.
func (m meter) requests(commands []string) (n float64) {
	for _, c := range commands {
		n += m.sum("commandstats", regexp.MustCompile(`cmdstat_`+c+`:calls=(\d+)`))
	}
	return n
}

var netInput = regexp.MustCompile(`total_net_input_bytes:(\d+)`)

// received is how many bytes the servers have got.
func (m meter) received() float64 { return m.sum("stats", netInput) }

func (m meter) sum(section string, number *regexp.Regexp) (sum float64) {
	for _, c := range m.truth {
		text, err := c.Info(ctx, section).Result()
		must(m.t, err)
		if found := number.FindStringSubmatch(text); found != nil {
			n, err := strconv.ParseFloat(found[1], 64)
			must(m.t, err)
			sum += n
		}
	}
	return sum
}

// memory is what the program uses, without what it has thrown away.
func memory() (m runtime.MemStats) {
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// settle waits until what a lock has left running is done, so that it doesn't disturb the next: until no goroutine has
// ended or begun for a while.
func settle() {
	for last, quiet := 0, 0; quiet < 10; quiet++ {
		if now := runtime.NumGoroutine(); now != last {
			last, quiet = now, 0
		}
		time.Sleep(slowness / 4)
	}
}

// inTurns calls f for each of n locks in each round. The order is another one each time: what disturbs the machine meets
// all of them alike.
func inTurns(rounds, n int, f func(i int)) {
	for range rounds {
		for _, i := range rand.Perm(n) {
			f(i)
		}
	}
}

// quantile is the value below which a share of all values lies: 0.5 gives the median.
func quantile(all []float64, share float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[min(int(share*float64(len(all))), len(all)-1)]
}

func median(all []float64) float64 { return quantile(all, 0.5) }

func mean(all []float64) (m float64) {
	for _, x := range all {
		m += x / float64(len(all))
	}
	return m
}

// against divides the values of each round by those of the same round of another: both had the same weather.
func against(all, other []float64) (ratios []float64) {
	for i := range all {
		ratios = append(ratios, all[i]/other[i])
	}
	return ratios
}

// jain is Jain's fairness index: 1 if all have the same, 1/n if one has everything, and 0 if nobody has anything.
func jain(all []float64) float64 {
	var sum, squares float64
	for _, x := range all {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(all)) * squares)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func name(what string, n int) string { return fmt.Sprintf("%s:%d", what, n) }
