package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/redislock/internal/redistest"
)

// WAIT n timeout answers how many replicas have confirmed what this connection has written. People put it behind
// the SET of a lock and hope. This act counts what that hope is worth.

// A replica that keeps up gets time to do so on a busy machine. One that is cut off answers no sooner after a minute.
const (
	patientWait = 2 * time.Second
	shortWait   = 100 * time.Millisecond
)

// rounds is how often each line of the act is tried.
const rounds = 20

// waited is what came of one way to use WAIT.
type waited struct {
	Way       string        `json:"way"`
	Confirmed int           `json:"confirmed"` // times WAIT said that a replica has it
	There     int           `json:"there"`     // times the key was on the server that takes over
	Median    time.Duration `json:"median_ns"`

	said [2]int // as documented
}

// runWait measures four ways.
func runWait(ctx context.Context, keep bool) (all []waited, err error) {
	err = onStage(keep, func(s *stage) error {
		now := []string{"--repl-diskless-sync-delay", "0"}
		primary := redistest.Start(s, now...)
		link := redistest.NewLink(s, primary.Addr())
		second := redistest.Start(s, link.ReplicaOf()...)
		m := &waitMeter{stage: s, heir: second.Client(s)}
		m.primary = redis.NewClient(&redis.Options{Addr: primary.Addr(), PoolSize: 2 * rounds})
		s.Cleanup(func() { _ = m.primary.Close() })
		if err := m.awaitReplica(ctx); err != nil {
			return err
		}
		m.timeout = patientWait
		m.measure(ctx, "same connection; the replica keeps up", nil, [2]int{rounds, rounds})
		others := m.idle(ctx)
		link.Cut()
		m.timeout = shortWait
		m.measure(ctx, "same connection; the replica is cut off", nil, [2]int{0, 0})
		m.measure(ctx, "another connection; the replica is cut off", others, [2]int{rounds, 0})
		redistest.Start(s, redistest.NewLink(s, primary.Addr()).ReplicaOf()...)
		if err := m.awaitReplica(ctx); err != nil {
			return err
		}
		m.timeout = patientWait
		m.measure(ctx, "same connection; of two replicas, the one cut off takes over", nil, [2]int{rounds, 0})
		all = m.all
		return m.takeOver(ctx, primary)
	})
	return all, err
}

type waitMeter struct {
	stage         *stage
	primary, heir *redis.Client
	all           []waited
	timeout       time.Duration // of each WAIT
	last          []string      // the keys of the last measurement
}

// awaitReplica waits until a replica confirms.
func (m *waitMeter) awaitReplica(ctx context.Context) error {
	conn := m.primary.Conn()
	defer conn.Close()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if err := conn.Set(ctx, "ready", "1", 0).Err(); err != nil {
			return err
		}
		if conn.Wait(ctx, 1, shortWait).Val() >= 1 {
			return nil
		}
	}
	return fmt.Errorf("no replica has confirmed within %v", patience)
}

// measure sets keys, asks WAIT about each, and looks on the heir whether they are there.
func (m *waitMeter) measure(ctx context.Context, way string, others []*redis.Conn, said [2]int) {
	w := waited{Way: way, said: said}
	var took []time.Duration
	m.last = nil
	for i := range rounds {
		key := fmt.Sprintf("lock:%d:%d", len(m.all), i)
		var waiter *redis.Conn
		if others != nil {
			waiter = others[i]
		}
		start := time.Now()
		if m.acquire(ctx, key, waiter) {
			w.Confirmed++
		}
		took = append(took, time.Since(start))
		if m.heir.Exists(ctx, key).Val() == 1 {
			w.There++
		}
		m.last = append(m.last, key)
	}
	slices.Sort(took)
	w.Median = took[rounds/2]
	m.all = append(m.all, w)
}

// acquire is a SET NX PX with a WAIT behind it, on the same connection or on the given one.
func (m *waitMeter) acquire(ctx context.Context, key string, waiter *redis.Conn) bool {
	setter := m.primary.Conn()
	defer setter.Close()
	if waiter == nil {
		waiter = setter
	}
	if !setter.SetNX(ctx, key, "token", long).Val() {
		m.stage.Fatalf("SET NX %s was refused", key)
	}
	return waiter.Wait(ctx, 1, m.timeout).Val() >= 1
}

// idle gives connections that lie idle, as they do in a pool. WAIT on such a connection waits for what had been written
// when it was last used.
func (m *waitMeter) idle(ctx context.Context) []*redis.Conn {
	conns := make([]*redis.Conn, rounds)
	for i := range conns {
		conns[i] = m.primary.Conn()
		m.stage.Cleanup(func() { _ = conns[i].Close() })
		if err := conns[i].Ping(ctx).Err(); err != nil {
			m.stage.Fatal(err)
		}
	}
	return conns
}

// takeOver kills the primary, promotes the heir, and counts again what the last acquirers were told is safe.
func (m *waitMeter) takeOver(ctx context.Context, primary *redistest.Server) error {
	primary.Kill()
	if err := m.heir.Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
		return err
	}
	there, err := m.heir.Exists(ctx, m.last...).Result()
	m.all[len(m.all)-1].There = int(there)
	return err
}

func (r *report) wait(all []waited) {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprint(t, "  SET, and WAIT 1 on the...\tWAIT says 1\tkey on the replica\tmedian\n")
	for _, w := range all {
		fmt.Fprintf(t, "  %s\t%d of %d\t%d of %d\t%.1f ms\n",
			w.Way, w.Confirmed, rounds, w.There, rounds, float64(w.Median.Microseconds())/1000)
	}
	_ = t.Flush()
	r.line("%s", strings.TrimRight(b.String(), "\n"))
}
