package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// Limits say what an audit takes for wrong, and how far it goes. A zero field stands for the default.
type Limits struct {
	Pattern string        // of the locks' keys; lock:*
	MaxTTL  time.Duration // a lock that would stay for longer than this is reported; 1 hour
	Page    int64         // how many keys Redis looks at in one go, and serves nobody else meanwhile; 500
	Most    int           // stop after so many locks, and say that the audit is not complete; 100,000
	Show    int           // how many keys of each kind the report names; 10
}

func (l Limits) orDefault() Limits {
	return Limits{
		Pattern: cmp.Or(l.Pattern, "lock:*"), MaxTTL: cmp.Or(l.MaxTTL, time.Hour),
		Page: cmp.Or(l.Page, 500), Most: cmp.Or(l.Most, 100_000), Show: cmp.Or(l.Show, 10),
	}
}

// Found are the keys of one kind: how many there are, and some of them.
type Found struct {
	Count int
	Keys  []Key
}

// Key is one key in Redis.
type Key struct {
	Name string
	Type string
	Left time.Duration // until it expires; negative if it never does
}

// Report is what an audit has found in one Redis: a server, or all masters of a cluster.
type Report struct {
	Locks     int   // keys that match the pattern
	NoTTL     Found // nobody can take these until somebody deletes them
	LongTTL   Found // the longest first
	WrongType Found // these are not locks: every chapter keeps a lock in a string
	// Oldest are the locks with the least time left. Among locks of one TTL these have been held, or have gone without
	// a renewal, for the longest time. Redis does not know when a key was made.
	Oldest   Found
	Complete bool              // false: there are more locks than Limits.Most
	Policies map[string]string // each server's maxmemory policy, "" if it does not say
}

// Evicting lists the servers that may delete a lock when their memory is full. Every policy but noeviction may: those
// named volatile-… choose among the keys with a TTL, which are the locks.
func (r Report) Evicting() []string {
	var servers []string
	for addr, policy := range r.Policies {
		if policy != "" && policy != "noeviction" {
			servers = append(servers, addr)
		}
	}
	slices.Sort(servers)
	return servers
}

// Problems is how many things are wrong.
func (r Report) Problems() int {
	return r.NoTTL.Count + r.LongTTL.Count + r.WrongType.Count + len(r.Evicting())
}

// Audit looks at all locks in one Redis, page by page: between two pages Redis serves others. Of a cluster it visits
// each master, of a ring each shard. It only reads. Keys that come and go meanwhile may or may not be in the report.
func Audit(ctx context.Context, rdb redis.UniversalClient, limits Limits) (Report, error) {
	a := &auditor{limits: limits.orDefault(), report: Report{Complete: true, Policies: map[string]string{}}, seen: map[string]bool{}}
	var err error
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		err = rdb.ForEachMaster(ctx, a.server)
	case *redis.Ring:
		err = rdb.ForEachShard(ctx, a.server)
	case *redis.Client:
		err = a.server(ctx, rdb)
	default:
		err = fmt.Errorf("%T is no client that can be audited: give a Client, a ClusterClient or a Ring", rdb)
	}
	if err != nil {
		return Report{}, fmt.Errorf("audit: %w", err)
	}
	return a.sorted(), nil
}

// auditor collects what several servers hold.
type auditor struct {
	limits Limits

	mu     sync.Mutex // a cluster's masters are visited at the same time
	report Report
	seen   map[string]bool // SCAN may return a key twice
}

// server visits one server.
func (a *auditor) server(ctx context.Context, rdb *redis.Client) error {
	if err := a.policy(ctx, rdb); err != nil {
		return err
	}
	for cursor := uint64(0); ; {
		names, next, err := rdb.Scan(ctx, cursor, a.limits.Pattern, a.limits.Page).Result()
		if err != nil {
			return err
		}
		keys, err := look(ctx, rdb, names)
		if err != nil {
			return err
		}
		if more := a.add(keys); !more || next == 0 {
			return nil
		}
		cursor = next
	}
}

// policy notes the server's maxmemory policy. A server may forbid INFO, and CONFIG GET more often still.
func (a *auditor) policy(ctx context.Context, rdb *redis.Client) error {
	info, err := rdb.Info(ctx, "memory").Result()
	if err != nil && !isAnswer(err) {
		return err
	}
	_, after, _ := strings.Cut(info, "maxmemory_policy:")
	policy, _, _ := strings.Cut(after, "\r\n")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report.Policies[rdb.Options().Addr] = policy
	return nil
}

// look asks for type and TTL of some keys.
func look(ctx context.Context, rdb *redis.Client, names []string) ([]Key, error) {
	if len(names) == 0 {
		return nil, nil
	}
	kinds, lefts := make([]*redis.StatusCmd, len(names)), make([]*redis.DurationCmd, len(names))
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			kinds[i], lefts[i] = p.Type(ctx, name), p.PTTL(ctx, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var keys []Key
	for i, name := range names {
		const missing = -2 // what PTTL answers, and go-redis passes on
		if left := lefts[i].Val(); left != missing && kinds[i].Val() != "none" {
			keys = append(keys, Key{Name: name, Type: kinds[i].Val(), Left: left})
		}
	}
	return keys, nil
}

// add sorts keys into the report, and says whether there is room for more.
func (a *auditor) add(keys []Key) (more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range keys {
		if a.seen[k.Name] {
			continue
		}
		if a.report.Locks == a.limits.Most {
			a.report.Complete = false
			return false
		}
		a.seen[k.Name] = true
		a.report.Locks++
		a.sort(k)
	}
	return true
}

func (a *auditor) sort(k Key) {
	r := &a.report
	switch {
	case k.Type != "string":
		r.WrongType.add(k)
	case k.Left < 0:
		r.NoTTL.add(k)
	default:
		if k.Left > a.limits.MaxTTL {
			r.LongTTL.add(k)
		}
		r.Oldest.add(k)
	}
}

func (f *Found) add(k Key) {
	f.Count++
	f.Keys = append(f.Keys, k)
}

// sorted is the report with its keys in order, cut down to those that it shows.
func (a *auditor) sorted() Report {
	byName := func(x, y Key) int { return cmp.Compare(x.Name, y.Name) }
	leastLeft := func(x, y Key) int { return cmp.Or(cmp.Compare(x.Left, y.Left), byName(x, y)) }
	mostLeft := func(x, y Key) int { return leastLeft(y, x) }
	r := a.report
	for _, list := range []struct {
		found *Found
		order func(x, y Key) int
	}{{&r.NoTTL, byName}, {&r.LongTTL, mostLeft}, {&r.WrongType, byName}, {&r.Oldest, leastLeft}} {
		slices.SortFunc(list.found.Keys, list.order)
		list.found.Keys = list.found.Keys[:min(len(list.found.Keys), a.limits.Show)]
	}
	return r
}

// audits is what a Monitor exports of its audits.
type audits struct {
	locks, noTTL, longTTL, wrongType, evicting, complete, at *prometheus.GaugeVec
	failures                                                 *prometheus.CounterVec
}

func newAudits() audits {
	return audits{
		locks:     gauge("audit_locks", "Locks in Redis at the last audit.", "node"),
		noTTL:     gauge("audit_locks_without_ttl", "Locks in Redis that never expire, at the last audit.", "node"),
		longTTL:   gauge("audit_locks_ttl_too_long", "Locks in Redis with more time left than the audit allows, at the last audit.", "node"),
		wrongType: gauge("audit_wrong_type", "Keys in Redis that are named like a lock and are no string, at the last audit.", "node"),
		evicting:  gauge("audit_evicting", "Servers whose maxmemory policy may delete a lock, at the last audit.", "node"),
		complete:  gauge("audit_complete", "1 if the last audit saw all locks, 0 if it stopped at its limit.", "node"),
		at:        gauge("audit_timestamp_seconds", "When the last audit that succeeded ended.", "node"),
		failures:  counter("audit_failures_total", "Audits that did not succeed.", "node"),
	}
}

func (a audits) parts() []prometheus.Collector {
	return []prometheus.Collector{a.locks, a.noTTL, a.longTTL, a.wrongType, a.evicting, a.complete, a.at, a.failures}
}

func (a audits) set(node string, r Report) {
	complete := 0
	if r.Complete {
		complete = 1
	}
	for vec, n := range map[*prometheus.GaugeVec]int{
		a.locks: r.Locks, a.noTTL: r.NoTTL.Count, a.longTTL: r.LongTTL.Count, a.wrongType: r.WrongType.Count,
		a.evicting: len(r.Evicting()), a.complete: complete,
	} {
		vec.WithLabelValues(node).Set(float64(n))
	}
	a.at.WithLabelValues(node).SetToCurrentTime()
}

// Watch audits a Redis, which the caller calls node, at once and then at every interval until ctx is done, and exports what
// it finds. It is enough if one process does this.
func (m *Monitor) Watch(ctx context.Context, node string, rdb redis.UniversalClient, interval time.Duration, limits Limits) error {
	failures := m.audit.failures.WithLabelValues(node)
	m.audit.at.WithLabelValues(node) // 0 until an audit has succeeded: an alert notices if none ever does
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		switch r, err := Audit(ctx, rdb, limits); {
		case err == nil:
			m.audit.set(node, r)
		case !errors.Is(err, ctx.Err()):
			failures.Inc()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
