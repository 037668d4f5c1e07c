package redlock_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	redlock "example.com/redislock/06-redlock"
	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

var ctx = context.Background()

const (
	lease   = 30 * time.Second
	at      = "lock:order:1"
	instant = 100 * time.Microsecond // how long nodes that answer at once may take altogether
)

// end is when a lease of this length ends for its holder, if it was asked for at sent.
func end(sent, ttl time.Duration) time.Duration { return sent + ttl - ttl/100 - 2*time.Millisecond }

// scene is some nodes.
type scene struct {
	*sim.World
	start time.Time
	nodes []*sim.Node
}

func stage(t *testing.T, nodes int, f func(s *scene)) *sim.History {
	t.Helper()
	return sim.Run(t, func(w *sim.World) {
		s := &scene{World: w, start: time.Now()}
		for i := range nodes {
			s.nodes = append(s.nodes, w.Node(fmt.Sprintf("N%d", i+1)))
		}
		f(s)
	})
}

// process is a locker with a network link of its own to each node, so that a fault can choose one.
type process struct {
	*redlock.Locker
	links []*sim.Client
}

func (s *scene) process(t *testing.T, name string, opts ...redlock.Option) *process {
	p := &process{}
	var nodes []redis.UniversalClient
	for i, n := range s.nodes {
		c := s.Client(fmt.Sprintf("%s%d", name, i+1), n)
		p.links = append(p.links, c)
		nodes = append(nodes, c.Redis())
	}
	var err error
	p.Locker, err = redlock.New(nodes, opts...)
	require.NoError(t, err)
	return p
}

// lock takes order:1, which has to work, and lets go of it in the end.
func (s *scene) lock(t *testing.T, p *process) *redlock.Lock {
	t.Helper()
	k, err := p.TryLock(ctx, "order:1", lease)
	require.NoError(t, err)
	s.AtEnd(func() { _ = k.Unlock(ctx) })
	return k
}

// until is the end of a lease on the clock of the scene.
func (s *scene) until(k *redlock.Lock) time.Duration { return k.Until().Sub(s.start) }

// free requires that no node has a key of order:1.
func (s *scene) free(t *testing.T) {
	t.Helper()
	for i, n := range s.nodes {
		require.Empty(t, n.Value(at), "node %d", i+1)
	}
}

// settle waits until all that happens at this instant has happened.
func settle() {
	time.Sleep(instant) // virtual
	synctest.Wait()
}

// background lets f run, and returns what it returned, or nil while it runs.
func background(f func() error) (answer func() (error, bool)) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() (error, bool) {
		settle()
		select {
		case err := <-done:
			return err, true
		default:
			return nil, false
		}
	}
}

// A majority of one to six nodes is enough, and nothing less. What a minority has granted is taken back.
func TestMajority(t *testing.T) {
	for n := 1; n <= 6; n++ {
		quorum := n/2 + 1
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			stage(t, n, func(s *scene) {
				p := s.process(t, "A")
				k := s.lock(t, p)
				s.At(time.Second)
				for _, node := range s.nodes {
					require.Equal(t, k.Token(), node.Value(at))
				}
				require.NoError(t, k.Unlock(ctx))
				s.At(2 * time.Second)
				s.free(t)
				for _, dead := range s.nodes[quorum:] {
					dead.Crash()
				}
				k = s.lock(t, p)
				require.NoError(t, k.Unlock(ctx))
				s.At(10 * time.Second)
				s.nodes[quorum-1].Crash()
				_, err := p.TryLock(ctx, "order:1", lease)
				require.Error(t, err)
				require.NotErrorIs(t, err, redlock.ErrNotAcquired)
				require.Equal(t, n-quorum+1, strings.Count(err.Error(), "node "), err)
				for i := quorum - 1; i < n; i++ {
					require.ErrorContains(t, err, fmt.Sprintf("node %d: no answer within 50ms", i+1)) // go-redis dials again and again
				}
				s.At(20 * time.Second)
				for _, node := range s.nodes[:quorum-1] {
					require.Empty(t, node.Value(at))
				}
			})
		})
	}
}

// Whether a node refuses connections is known at once. go-redis dials five times all the same, and meanwhile the node counts as
// one that hangs, unless it is told to dial once.
func TestRefusedConnectionIsTold(t *testing.T) {
	for dials, c := range map[int]struct {
		says  string
		after time.Duration
	}{0: {"no answer within 50ms", 50 * time.Millisecond}, 1: {"dial sim: connection refused", 0}} {
		t.Run(c.says, func(t *testing.T) {
			stage(t, 3, func(s *scene) {
				var nodes []redis.UniversalClient
				for _, n := range s.nodes {
					a := s.Client("A", n, func(o *redis.Options) { o.DialerRetries = dials })
					nodes = append(nodes, a.Redis())
				}
				l, err := redlock.New(nodes)
				require.NoError(t, err)
				s.nodes[1].Crash()
				s.nodes[2].Crash()
				_, err = l.TryLock(ctx, "order:1", lease)
				require.ErrorContains(t, err, "node 2: "+c.says)
				require.ErrorContains(t, err, "node 3: "+c.says)
				require.WithinRange(t, time.Now(), s.start.Add(c.after), s.start.Add(c.after+instant))
				s.At(time.Minute)
				s.free(t)
			})
		})
	}
}

// Q2: no node may vote twice, however its address is spelt.
func TestNodesAreRefused(t *testing.T) {
	node := func(addr string) redis.UniversalClient {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	one := node("127.0.0.1:6379")
	for name, c := range map[string]struct {
		nodes []redis.UniversalClient
		says  string
	}{
		"none":            {nil, "no Redis nodes"},
		"nil":             {[]redis.UniversalClient{one, nil}, "node 2 is nil"},
		"nil client":      {[]redis.UniversalClient{one, (*redis.Client)(nil)}, "node 2 is nil"},
		"one client":      {[]redis.UniversalClient{one, node("127.0.0.1:6380"), one}, "nodes 1 and 3 are the same server"},
		"one address":     {[]redis.UniversalClient{one, node("127.0.0.1:6379")}, "nodes 1 and 2 are the same server"},
		"localhost":       {[]redis.UniversalClient{one, node("localhost:6379")}, "the same server"},
		"upper case":      {[]redis.UniversalClient{node("LocalHost:6379"), one}, "the same server"},
		"IPv6":            {[]redis.UniversalClient{one, node("[::1]:6379")}, "the same server"},
		"IPv4 in IPv6":    {[]redis.UniversalClient{one, node("[::ffff:127.0.0.1]:6379")}, "the same server"},
		"no host":         {[]redis.UniversalClient{one, node(":6379")}, "the same server"},
		"default address": {[]redis.UniversalClient{one, node("")}, "the same server"},
		"final dot":       {[]redis.UniversalClient{one, node("localhost.:6379")}, "the same server"},
		"long IPv6":       {[]redis.UniversalClient{node("[fd00::1]:6379"), node("[FD00:0:0:0:0:0:0:1]:6379")}, "the same server"},
		"other database": {[]redis.UniversalClient{one, func() redis.UniversalClient {
			c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", DB: 1})
			t.Cleanup(func() { _ = c.Close() })
			return c
		}()}, "the same server"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := redlock.New(c.nodes)
			require.ErrorContains(t, err, c.says)
		})
	}
	_, err := redlock.New([]redis.UniversalClient{one, node("127.0.0.1:6380"), node("127.0.0.2:6379")})
	require.NoError(t, err)
	sentinels := func(name string) redis.UniversalClient {
		c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: name, SentinelAddrs: []string{"127.0.0.1:26379"}})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	_, err = redlock.New([]redis.UniversalClient{sentinels("a"), sentinels("b"), sentinels("c")})
	require.NoError(t, err, "their servers' addresses are not known yet")
}

// Q2: four nodes survive no more failures than three, and New says so.
func TestEvenNumberWarns(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	stage(t, 3, func(s *scene) { s.process(t, "A") })
	require.Empty(t, log.String())
	stage(t, 4, func(s *scene) { s.process(t, "A") })
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "nodes=4")
}

// Q3: a majority decides, and a node that hangs is not waited for: not to acquire, renew, extend or unlock.
func TestHungNodeIsNotWaitedFor(t *testing.T) {
	stage(t, 5, func(s *scene) {
		p := s.process(t, "A")
		s.nodes[4].Hang()
		k := s.lock(t, p)
		require.Less(t, s.Now(), instant)
		s.At(45 * time.Second)
		require.NoError(t, k.Context().Err())
		require.NoError(t, k.Extend(ctx, lease))
		require.NoError(t, k.Unlock(ctx))
		require.Less(t, s.Now()-45*time.Second, instant)
	})
}

// Q4: a grant that comes after the decision is removed, also when the holder has unlocked before.
func TestLateGrantIsRemoved(t *testing.T) {
	stage(t, 3, func(s *scene) {
		p := s.process(t, "A")
		s.nodes[2].Hang()
		k := s.lock(t, p)
		require.NoError(t, k.Unlock(ctx))
		s.At(time.Second)
		s.nodes[2].Resume() // and executes the SET
		s.At(2 * time.Second)
		s.free(t)
	})
}

// Q4: the same after an attempt that was refused, and decided without the node that hangs.
func TestLateGrantOfAFailedAttemptIsRemoved(t *testing.T) {
	stage(t, 3, func(s *scene) {
		p, q := s.process(t, "A"), s.process(t, "B")
		k := s.lock(t, q)
		require.NoError(t, k.Unlock(ctx))
		s.At(time.Second)
		s.nodes[0].Set(at, "a stranger's", lease)
		s.nodes[1].Set(at, "a stranger's", lease)
		s.nodes[2].Hang()
		_, err := p.TryLock(ctx, "order:1", lease)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		require.Less(t, s.Now()-time.Second, instant)
		s.At(2 * time.Second)
		s.nodes[2].Resume()
		s.At(3 * time.Second)
		require.Empty(t, s.nodes[2].Value(at))
		require.Equal(t, "a stranger's", s.nodes[0].Value(at))
		require.Equal(t, "a stranger's", s.nodes[1].Value(at))
	})
}

// Q4: the caller's deadline ends the attempt, and not the clean-up, on whichever nodes the attempt has been.
func TestCleanUpOutlivesTheCaller(t *testing.T) {
	stage(t, 3, func(s *scene) {
		p := s.process(t, "A")
		s.nodes[0].Hang()
		s.nodes[1].Hang()
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		_, err := p.TryLock(short, "order:1", lease)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, s.Now()-20*time.Millisecond, instant)
		s.At(time.Second)
		require.Empty(t, s.nodes[2].Value(at))
		s.nodes[0].Resume()
		s.nodes[1].Resume()
		s.At(2 * time.Second)
		s.free(t)
	})
}

// Q5: what an attempt leaves behind is not in the way of the next one, although its clean-up is slow.
func TestOwnLeftoversDontBlock(t *testing.T) {
	stage(t, 3, func(s *scene) {
		p := s.process(t, "A")
		s.nodes[1].Refuse("LOADING Redis is loading the dataset in memory")
		s.nodes[2].Refuse("LOADING Redis is loading the dataset in memory")
		late := p.links[0].DeliverLate(wire.Releases)
		first := background(func() error { _, err := p.TryLock(ctx, "order:1", lease); return err })
		_, done := first()
		require.True(t, late.Caught())
		require.False(t, done, "TryLock has returned while its key was still there")
		s.At(10 * time.Millisecond)
		late.Deliver()
		err, done := first()
		require.True(t, done)
		require.ErrorContains(t, err, "LOADING")
		s.nodes[1].Accept()
		s.nodes[2].Accept()
		k := s.lock(t, p)
		s.At(time.Second)
		for _, n := range s.nodes {
			require.Equal(t, k.Token(), n.Value(at))
		}
	})
}

// Q7: two clients that split the votes meet again, and one of them gets in, two hundred times. The third node is down.
func TestSplitVotesEnd(t *testing.T) {
	rounds, patience := 200, 10*time.Second
	if sim.RaceDetector {
		rounds = 20
	}
	splits, slowest := 0, time.Duration(0)
	stage(t, 3, func(s *scene) {
		both := []*process{s.process(t, "A"), s.process(t, "B")}
		s.nodes[2].Hang()
		for range rounds {
			late := []*sim.Late{both[0].links[1].DeliverLate(wire.Acquires), both[1].links[0].DeliverLate(wire.Acquires)}
			limit, cancel := context.WithTimeout(ctx, patience)
			var inside, got int
			var mu sync.Mutex
			var all sync.WaitGroup
			began := s.Now()
			for _, p := range both {
				all.Go(func() {
					k, err := p.Lock(limit, "order:1", lease)
					if err != nil {
						return
					}
					mu.Lock()
					got, inside = got+1, inside+1
					if inside > 1 {
						t.Error("two holders")
					}
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					inside--
					mu.Unlock()
					_ = k.Unlock(ctx)
				})
			}
			settle()
			if late[0].Caught() && late[1].Caught() {
				splits++
				late[0].Deliver()
				late[1].Deliver()
			}
			all.Wait()
			cancel()
			require.Equal(t, 2, got, "one after the other within %v", patience)
			slowest = max(slowest, s.Now()-began)
			time.Sleep(10 * time.Second) // virtual: what hangs is given up
		}
	})
	require.Equal(t, rounds, splits)
	t.Logf("the slowest of %d rounds took %v, of which the two were inside for 2s", rounds, slowest)
}
