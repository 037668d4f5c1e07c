package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	bsm "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	saferelease "example.com/redislock/03-safe-release"
	watchdog "example.com/redislock/04-watchdog"
	reentrant "example.com/redislock/05-reentrant"
	redlock "example.com/redislock/06-redlock"
	failover "example.com/redislock/07-failover-demo"
	"example.com/redislock/internal/redistest"
	"example.com/redislock/internal/wire"
)

// take makes a lock's own call that waits for the lock. It returns the context that ends with the lease, nil if the lock has none.
type take func(ctx context.Context, ttl time.Duration) (lease context.Context, free unlock, err error)

// subject is a lock that faults are tried on, each time with clients of its own, with go-redis' default options.
type subject struct {
	name    string
	several bool // it can ask several nodes
	direct  bool // its protocol does not pass our proxy
	open    func(t redistest.T, nodes []redis.UniversalClient, addrs []string) take
}

const resource = "order:1"

// ours is a lock of this repository.
func ours[K interface{ Unlock(context.Context) error }](lock func(context.Context, string, time.Duration) (K, error)) take {
	return func(ctx context.Context, ttl time.Duration) (context.Context, unlock, error) {
		k, err := lock(ctx, resource, ttl)
		if err != nil {
			return nil, nil, err
		}
		var lease context.Context
		if k, ok := any(k).(interface{ Context() context.Context }); ok {
			lease = k.Context()
		}
		return lease, k.Unlock, nil
	}
}

var subjects = []subject{
	{name: "03", open: func(t redistest.T, nodes []redis.UniversalClient, addrs []string) take {
		return ours(saferelease.New(nodes[0]).Lock)
	}},
	{name: "04", open: func(t redistest.T, nodes []redis.UniversalClient, addrs []string) take {
		return ours(watchdog.New(nodes[0]).Lock)
	}},
	{name: "05", open: func(t redistest.T, nodes []redis.UniversalClient, addrs []string) take {
		return ours(reentrant.New(nodes[0]).Lock)
	}},
	{name: "06", several: true, open: func(t redistest.T, nodes []redis.UniversalClient, addrs []string) take {
		l, err := redlock.New(nodes)
		must(t, err)
		return ours(l.Lock)
	}},
	{name: "07", several: true, open: func(t redistest.T, nodes []redis.UniversalClient, addrs []string) take {
		l, err := failover.New(nodes)
		must(t, err)
		return ours(l.Lock)
	}},
	{name: "redsync", several: true, open: func(t redistest.T, nodes []redis.UniversalClient, addrs []string) take {
		var pools []redsyncredis.Pool
		for _, rdb := range nodes {
			pools = append(pools, goredis.NewPool(rdb))
		}
		rs := redsync.New(pools...)
		return func(ctx context.Context, ttl time.Duration) (context.Context, unlock, error) {
			m := rs.NewMutex(resource, redsync.WithExpiry(ttl))
			err := m.LockContext(ctx)
			return nil, func(ctx context.Context) error { _, err := m.UnlockContext(ctx); return err }, err
		}
	}},
	{name: "bsm/redislock", open: func(t redistest.T, nodes []redis.UniversalClient, addrs []string) take {
		client := bsm.New(nodes[0])
		return func(ctx context.Context, ttl time.Duration) (context.Context, unlock, error) {
			k, err := client.Obtain(ctx, resource, ttl, &bsm.Options{RetryStrategy: &pauses{}})
			return nil, k.Release, err
		}
	}},
	{name: "rueidislock", direct: true, open: func(t redistest.T, nodes []redis.UniversalClient, addrs []string) take {
		return func(ctx context.Context, ttl time.Duration) (context.Context, unlock, error) {
			l, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption: rueidis.ClientOption{InitAddress: addrs}, KeyMajority: 1, NoLoopTracking: true, KeyValidity: ttl,
			})
			if err != nil {
				return nil, nil, err
			}
			t.Cleanup(l.Close)
			lease, free, err := l.WithContext(ctx, resource)
			return lease, func(context.Context) error { free(); return nil }, err
		}
	}},
}

// trial lets one thing go wrong for one lock and says what came of it.
type trial struct {
	name  string
	nodes int
	proxy bool
	bound bool // the clients have ContextTimeoutEnabled
	try   func(p patient) string
}

// patient is one lock in one trial.
type patient struct {
	take    take
	servers servers
	proxy   *redistest.Proxy
	truth   []*redis.Client
}

var trials = []trial{
	{name: "1. The reply to an acquisition is lost", nodes: 1, proxy: true, try: replyToAcquireLost},
	{name: "2. Redis hangs, and the caller has 200 ms: back after", nodes: 1, try: acquireFromHung},
	{name: "3. The same, with `ContextTimeoutEnabled`", nodes: 1, bound: true, try: acquireFromHung},
	{name: "4. The same, with three of five nodes", nodes: 5, bound: true, try: acquireFromTwo},
	{name: "5. Unlock gets a ctx that has ended", nodes: 1, try: unlockOnEndedContext},
	{name: "6. The reply to a release is lost", nodes: 1, proxy: true, try: replyToReleaseLost},
	{name: "7. At Unlock the key is gone, or another's", nodes: 1, try: goneOrForeign},
	{name: "8. The key is deleted while held: the holder is told", nodes: 1, try: deletedWhileHeld},
	{name: "9. Redis hangs while the lock is held: told, and the key ends", nodes: 1, try: hungWhileHeld},
}

// faults tries each fault on each lock, on servers of its own. All locks are tried side by side: they wait, mostly.
func faults(t redistest.T, _ scale) table {
	out := table{head: []string{"fault"}, words: true}
	for _, s := range subjects {
		out.head = append(out.head, s.name)
	}
	for _, tr := range trials {
		cells := make([]string, len(subjects))
		var all sync.WaitGroup
		for i, s := range subjects {
			if tr.nodes > 1 && !s.several || (tr.proxy || tr.bound) && s.direct {
				cells[i] = "–"
				continue
			}
			p := prepare(t, tr, s)
			all.Go(func() { cells[i] = tr.try(p) })
		}
		all.Wait()
		out.rows = append(out.rows, append([]string{tr.name}, cells...))
	}
	return out
}

func prepare(t redistest.T, tr trial, s subject) patient {
	p := patient{servers: start(t, tr.nodes)}
	var addrs []string
	for _, server := range p.servers {
		p.truth = append(p.truth, server.Client(t))
		addrs = append(addrs, server.Addr())
	}
	if tr.proxy {
		p.proxy = redistest.NewProxy(t, addrs[0])
		addrs[0] = p.proxy.Addr()
	}
	var nodes []redis.UniversalClient
	for _, addr := range addrs {
		rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: tr.bound})
		t.Cleanup(func() { _ = rdb.Close() })
		nodes = append(nodes, rdb)
	}
	p.take = s.open(t, nodes, addrs)
	return p
}

// keys counts the locks that stand on some servers that answer.
func (p patient) keys(which []*redis.Client) (n int) {
	for _, rdb := range which {
		n += len(locksOn(rdb))
	}
	return n
}

// locksOn lists the keys about the resource, but for the counts of chapter 7, which stay.
func locksOn(rdb *redis.Client) (all []string) {
	for _, key := range rdb.Keys(ctx, "*"+resource+"*").Val() {
		if !strings.HasPrefix(key, "fence:") {
			all = append(all, key)
		}
	}
	return all
}

// empties waits for the keys to go, but not for as long as their ttl.
func (p patient) empties(which []*redis.Client) bool {
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if p.keys(which) == 0 {
			return true
		}
	}
	return false
}

// unless adds that a key has stayed.
func unless(gone bool, answer string) string {
	if gone {
		return answer
	}
	return answer + ", its key stays"
}

var aboutTheLock wire.Match = func(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, resource) })
}

// warm lets the server learn the lock's scripts. Otherwise the reply that is lost may be NOSCRIPT, and nothing has been executed.
func (p patient) warm() error {
	_, free, err := p.take(ctx, ttl)
	if err != nil {
		return err
	}
	return free(ctx)
}

func replyToAcquireLost(p patient) string {
	if err := p.warm(); err != nil {
		return err.Error()
	}
	p.proxy.LoseReply(aboutTheLock, 1)
	limit, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, _, err := p.take(limit, ttl); err != nil {
		return unless(p.keys(p.truth) == 0, "not held")
	}
	return "held"
}

func acquireFromHung(p patient) string {
	p.servers[0].Pause()
	took, err := p.attempt(200 * time.Millisecond)
	p.servers[0].Resume()
	if err == nil {
		return "held"
	}
	return unless(p.empties(p.truth), fmt.Sprintf("%.1f s", took.Seconds()))
}

func acquireFromTwo(p patient) string {
	for _, s := range p.servers[:3] {
		s.Pause()
	}
	took, err := p.attempt(200 * time.Millisecond)
	gone := p.empties(p.truth[3:])
	for _, s := range p.servers[:3] {
		s.Resume()
	}
	if err == nil {
		return "held"
	}
	return unless(gone, fmt.Sprintf("%.1f s", took.Seconds()))
}

func (p patient) attempt(patience time.Duration) (took time.Duration, err error) {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	_, _, err = p.take(limit, ttl)
	return time.Since(began), err
}

func unlockOnEndedContext(p patient) string {
	_, free, err := p.take(ctx, ttl)
	if err != nil {
		return err.Error()
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	_ = free(over)
	if p.empties(p.truth) {
		return "freed"
	}
	return "its key stays"
}

func replyToReleaseLost(p patient) string {
	if err := p.warm(); err != nil {
		return err.Error()
	}
	_, free, err := p.take(ctx, ttl)
	if err != nil {
		return err.Error()
	}
	p.proxy.LoseReply(aboutTheLock, 1)
	if err = free(ctx); err != nil {
		return unless(p.empties(p.truth), "an error")
	}
	return "freed"
}

func goneOrForeign(p patient) string {
	var answers []error
	for _, happens := range []func(key string){
		func(key string) { p.truth[0].Del(ctx, key) },
		func(key string) { p.truth[0].Set(ctx, key, "another's", redis.KeepTTL) },
	} {
		_, free, err := p.take(ctx, ttl)
		if err != nil {
			return err.Error()
		}
		for _, key := range locksOn(p.truth[0]) {
			happens(key)
		}
		answers = append(answers, free(ctx))
	}
	switch {
	case answers[0] == nil && answers[1] == nil:
		return "no error"
	case fmt.Sprint(answers[0]) == fmt.Sprint(answers[1]):
		return "one error"
	}
	return "two errors"
}

const heldFor = 3 * time.Second

func deletedWhileHeld(p patient) string {
	lease, _, err := p.take(ctx, heldFor)
	switch {
	case err != nil:
		return err.Error()
	case lease == nil:
		return "never"
	}
	p.truth[0].FlushAll(ctx)
	began := time.Now()
	select {
	case <-lease.Done():
		return fmt.Sprintf("after %.1f s", time.Since(began).Seconds())
	case <-time.After(3 * heldFor):
		return "never"
	}
}

func hungWhileHeld(p patient) string {
	lease, _, err := p.take(ctx, heldFor)
	switch {
	case err != nil:
		return err.Error()
	case lease == nil:
		return "never"
	}
	var end time.Time
	for _, key := range locksOn(p.truth[0]) {
		if left := p.truth[0].PTTL(ctx, key).Val(); left > 0 {
			end = time.Now().Add(left)
		}
	}
	p.servers[0].Pause()
	defer p.servers[0].Resume()
	select {
	case <-lease.Done():
	case <-time.After(time.Until(end) + 3*heldFor):
		return "never"
	}
	if early := time.Until(end); early > 0 {
		return fmt.Sprintf("%.2f s before", early.Seconds())
	}
	return fmt.Sprintf("%.1f s after", time.Since(end).Seconds())
}
