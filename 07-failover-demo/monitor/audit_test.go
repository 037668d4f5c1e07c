package monitor_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	watchdog "example.com/redislock/04-watchdog"
	reentrant "example.com/redislock/05-reentrant"
	monitor "example.com/redislock/07-failover-demo/monitor"
	"example.com/redislock/internal/redistest"
)

// fill puts into Redis what an audit should find, and what it should leave alone.
func fill(t testing.TB, rdb redis.UniversalClient) {
	t.Helper()
	for name, ttl := range map[string]time.Duration{
		"lock:order:1": 20 * time.Second, "lock:order:2": 10 * time.Second, "lock:order:3": 50 * time.Minute,
		"lock:long": 2 * time.Hour, "lock:longer": 3 * time.Hour, "lock:immortal": 0, "lock:": 0, "unlock:order:1": 0, "stock": 0,
	} {
		require.NoError(t, rdb.Set(ctx, name, "token", ttl).Err())
	}
	require.NoError(t, rdb.HSet(ctx, "lock:hash", "owner", 1).Err())
	require.NoError(t, rdb.RPush(ctx, "lock:list", 1).Err())
	require.NoError(t, rdb.Expire(ctx, "lock:list", time.Minute).Err())
}

func names(f monitor.Found) (all []string) {
	for _, k := range f.Keys {
		all = append(all, k.Name)
	}
	return all
}

func requireFound(t testing.TB, r monitor.Report) {
	t.Helper()
	require.Equal(t, 9, r.Locks)
	require.True(t, r.Complete)
	require.Equal(t, []string{"lock:", "lock:immortal"}, names(r.NoTTL))
	require.Equal(t, []string{"lock:longer", "lock:long"}, names(r.LongTTL))
	require.Equal(t, []string{"lock:hash", "lock:list"}, names(r.WrongType))
	require.Equal(t, "hash", r.WrongType.Keys[0].Type)
	require.Equal(t, []string{"lock:order:2", "lock:order:1", "lock:order:3", "lock:long", "lock:longer"}, names(r.Oldest))
	require.LessOrEqual(t, r.Oldest.Keys[0].Left, 10*time.Second)
	require.Positive(t, r.Oldest.Keys[0].Left)
}

// An audit of a real server finds what is wrong, and nothing else. It asks for pages of any size.
func TestAudit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	fill(t, rdb)
	for _, page := range []int64{1, 3, 500} {
		r, err := monitor.Audit(ctx, rdb, monitor.Limits{Page: page})
		require.NoError(t, err)
		requireFound(t, r)
		require.Equal(t, map[string]string{server.Addr(): "noeviction"}, r.Policies)
		require.Empty(t, r.Evicting())
		require.Equal(t, 6, r.Problems())
	}
	r, err := monitor.Audit(ctx, rdb, monitor.Limits{Pattern: "lock:order:*", MaxTTL: 30 * time.Second})
	require.NoError(t, err)
	require.Equal(t, []string{"lock:order:3"}, names(r.LongTTL))
	require.Equal(t, 1, r.Problems())
}

// Every maxmemory policy but noeviction may delete a lock. A server that does not say which it has is no reason to give up.
func TestAuditReadsTheEvictionPolicy(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	for policy, evicts := range map[string]bool{"noeviction": false, "allkeys-lru": true, "volatile-ttl": true} {
		require.NoError(t, rdb.ConfigSet(ctx, "maxmemory-policy", policy).Err())
		r, err := monitor.Audit(ctx, rdb, monitor.Limits{})
		require.NoError(t, err)
		require.Equal(t, policy, r.Policies[server.Addr()])
		require.Equal(t, evicts, r.Problems() == 1, policy)
	}
	require.NoError(t, rdb.Do(ctx, "ACL", "SETUSER", "auditor", "on", ">secret", "~*", "+@read", "+ping").Err())
	auditor := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "auditor", Password: "secret"})
	defer func() { require.NoError(t, auditor.Close()) }()
	r, err := monitor.Audit(ctx, auditor, monitor.Limits{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{server.Addr(): ""}, r.Policies)
	require.Zero(t, r.Problems())
}

// What the locks themselves leave in Redis is in order, at any depth.
func TestAuditOfGoodLocks(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	_, err := watchdog.New(rdb).TryLock(ctx, "order:1", lease)
	require.NoError(t, err)
	owner := reentrant.WithOwner(ctx)
	for range 3 {
		_, err := reentrant.New(rdb).TryLock(owner, "order:2", lease)
		require.NoError(t, err)
	}
	r, err := monitor.Audit(ctx, rdb, monitor.Limits{MaxTTL: lease})
	require.NoError(t, err)
	require.Equal(t, 2, r.Locks)
	require.Equal(t, 2, r.Oldest.Count)
	require.Zero(t, r.Problems())
}

// An audit stops at its limits: with so many locks, with so many names, and when its ctx ends.
func TestAuditIsBounded(t *testing.T) {
	server, err := miniredis.Run()
	require.NoError(t, err)
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { require.NoError(t, rdb.Close()) }()
	for i := range 1000 {
		require.NoError(t, server.Set(fmt.Sprintf("lock:%03d", i), "token"))
	}
	r, err := monitor.Audit(ctx, rdb, monitor.Limits{Most: 250, Page: 10, Show: 3})
	require.NoError(t, err)
	require.False(t, r.Complete)
	require.Equal(t, 250, r.Locks)
	require.Equal(t, 250, r.NoTTL.Count)
	require.Len(t, r.NoTTL.Keys, 3)
	r, err = monitor.Audit(ctx, rdb, monitor.Limits{Most: 1000})
	require.NoError(t, err)
	require.True(t, r.Complete)

	over, cancel := context.WithCancel(ctx)
	cancel()
	_, err = monitor.Audit(over, rdb, monitor.Limits{})
	require.ErrorIs(t, err, context.Canceled)
	_, err = monitor.Audit(ctx, nil, monitor.Limits{})
	require.Error(t, err)
}

// A ring's shards are one Redis: the audit visits all of them.
func TestAuditOfARing(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.Addr(), "b": b.Addr()}})
	defer func() { require.NoError(t, ring.Close()) }()
	fill(t, ring)
	require.NoError(t, b.Client(t).ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
	for _, server := range []*redistest.Server{a, b} {
		require.Positive(t, server.Client(t).DBSize(ctx).Val(), "all keys are on one shard")
	}
	r, err := monitor.Audit(ctx, ring, monitor.Limits{})
	require.NoError(t, err)
	requireFound(t, r)
	require.Equal(t, []string{b.Addr()}, r.Evicting())
}

// A cluster's masters are one Redis too.
func TestAuditOfACluster(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t, "--cluster-enabled", "yes"), redistest.Start(t, "--cluster-enabled", "yes")
	ca, cb := a.Client(t), b.Client(t)
	require.NoError(t, ca.ClusterAddSlotsRange(ctx, 0, 8191).Err())
	require.NoError(t, cb.ClusterAddSlotsRange(ctx, 8192, 16383).Err())
	host, port, err := net.SplitHostPort(b.Addr())
	require.NoError(t, err)
	require.NoError(t, ca.ClusterMeet(ctx, host, port).Err())
	for _, c := range []*redis.Client{ca, cb} {
		require.Eventually(t, func() bool {
			info := c.ClusterInfo(ctx).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:2")
		}, 20*time.Second, 20*time.Millisecond)
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{a.Addr()}})
	defer func() { require.NoError(t, cluster.Close()) }()
	fill(t, cluster)
	for _, c := range []*redis.Client{ca, cb} {
		require.Positive(t, c.DBSize(ctx).Val(), "all keys are on one master")
	}
	r, err := monitor.Audit(ctx, cluster, monitor.Limits{})
	require.NoError(t, err)
	requireFound(t, r)
	require.Len(t, r.Policies, 2)
}

// Watch exports what the audits find, says when the last one succeeded, and counts those that don't.
func TestWatch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	fill(t, rdb)
	m := monitor.New()
	watching, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.Watch(watching, "redis-1", rdb, 10*time.Millisecond, monitor.Limits{}) }()
	eventually := func(metric string, want float64) {
		t.Helper()
		is := func() bool { return read(t, m).of(metric, `node="redis-1"`) == want }
		require.Eventually(t, is, 20*time.Second, 10*time.Millisecond, metric)
	}
	eventually("audit_locks", 9)
	eventually("audit_locks_without_ttl", 2)
	eventually("audit_locks_ttl_too_long", 2)
	eventually("audit_wrong_type", 2)
	eventually("audit_complete", 1)
	require.InDelta(t, time.Now().Unix(), read(t, m).of("audit_timestamp_seconds"), 20)
	require.NoError(t, rdb.Del(ctx, "lock:", "lock:immortal").Err())
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
	eventually("audit_locks_without_ttl", 0)
	eventually("audit_evicting", 1)
	require.Zero(t, read(t, m).of("audit_failures_total"))
	server.Kill()
	require.Eventually(t, func() bool { return read(t, m).of("audit_failures_total") > 0 }, 20*time.Second, 10*time.Millisecond)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}
