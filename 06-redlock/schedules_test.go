package redlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	redlock "example.com/redislock/06-redlock"
	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// Two clients lock, extend and unlock at random, while nodes hang, die and come back with their data, links break, and requests
// and replies are lost or late. Whoever believes in a lease has it: a majority of the nodes keeps the key until then. So no two
// believe in one at a time, and in the end nothing is left.
func TestLeaseInAnySchedule(t *testing.T) {
	seeds := 100
	if testing.Short() {
		seeds = 10
	}
	if sim.RaceDetector {
		seeds = 5
	}
	if os.Getenv("REDISLOCK_LONG") != "" {
		seeds = 500
	}
	acquired, extended := 0, 0
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			a, e := anySchedule(t, uint64(seed))
			acquired, extended = acquired+a, extended+e
		})
	}
	t.Logf("%d acquisitions and %d successful Extends in %d schedules", acquired, extended, seeds)
	require.Greater(t, acquired, seeds, "too little has happened to prove anything")
	require.Positive(t, extended)
}

// player is a client with at most one lock, and at most one call at a time on its way.
type player struct {
	*process
	mu   sync.Mutex // guards all below
	k    *redlock.Lock
	busy bool
}

// call lets f run in the background, if the player has nothing else to do. What f returns is what the player has afterwards.
func (p *player) call(all *sync.WaitGroup, f func(k *redlock.Lock) *redlock.Lock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy {
		return
	}
	p.busy = true
	k := p.k
	all.Go(func() {
		after := f(k)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.k, p.busy = after, false
	})
}

func anySchedule(t *testing.T, seed uint64) (acquired, extended int) {
	random := rand.New(rand.NewPCG(seed, 6))
	ttls := []time.Duration{3 * time.Second, 5 * time.Second, lease, 2 * lease}
	slow := redlock.WithRequestTimeout(time.Second) // so that answers may be late, and count
	sent := wire.Named("acquire", "extend", "release")
	stage(t, 3+2*random.IntN(2), func(s *scene) {
		players := []*player{{process: s.process(t, "A", slow)}, {process: s.process(t, "B", slow)}}
		var all sync.WaitGroup
		var mu sync.Mutex
		count := func(err error, n *int) bool {
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				*n++
			}
			return err == nil
		}
		patience := func(most int) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Duration(random.IntN(most))*time.Millisecond)
		}
		hung, down, lates := map[*sim.Node]bool{}, map[*sim.Node]bool{}, []*sim.Late{}
		deliver := func() {
			lates = slices.DeleteFunc(lates, func(l *sim.Late) bool {
				caught := l.Caught()
				if caught {
					l.Deliver()
				}
				return caught
			})
		}
		mend := func(n *sim.Node) {
			if hung[n] {
				n.Resume()
			}
			if down[n] {
				n.Restart(true)
			}
			hung[n], down[n] = false, false
		}
		for range 100 {
			p, i := players[random.IntN(2)], random.IntN(len(s.nodes))
			n, link := s.nodes[i], p.links[i]
			switch random.IntN(15) {
			case 0, 1, 2, 3:
				within, cancel := patience(2000)
				ttl := ttls[random.IntN(len(ttls))]
				p.call(&all, func(k *redlock.Lock) *redlock.Lock {
					defer cancel()
					if k == nil {
						var err error
						k, err = p.Lock(within, "order:1", ttl)
						count(err, &acquired)
					}
					return k
				})
			case 4, 5:
				within, cancel := patience(1500)
				ttl := ttls[random.IntN(len(ttls))]
				p.call(&all, func(k *redlock.Lock) *redlock.Lock {
					defer cancel()
					if k != nil {
						count(k.Extend(within, ttl), &extended)
					}
					return k
				})
			case 6:
				within, cancel := patience(300)
				p.call(&all, func(k *redlock.Lock) *redlock.Lock {
					defer cancel()
					_ = k.Unlock(within)
					return nil
				})
			case 7:
				if !down[n] {
					n.Hang()
					hung[n] = true
				}
			case 8:
				n.Crash()
				down[n], hung[n] = true, false
			case 9, 10, 14:
				mend(n)
			case 11:
				link.LoseReply(sent, 1+random.IntN(4))
				link.LoseRequest(sent, random.IntN(2))
			case 12:
				lates = append(lates, link.DeliverLate(sent))
				link.Cut()
				link.Heal()
			case 13:
				deliver()
			}
			s.believers(t, players)
			time.Sleep(time.Duration(random.IntN([]int{20, 500, 2000, 12000}[random.IntN(4)])) * time.Millisecond) // virtual
			s.believers(t, players)
		}
		for _, n := range s.nodes {
			mend(n)
		}
		deliver()
		all.Wait()
		for _, p := range players {
			_ = p.k.Unlock(ctx)
		}
		time.Sleep(3 * lease) // virtual: what has arrived too late ends
		s.free(t)
	})
	return acquired, extended
}

// believers requires that whoever believes in a lease has it at a majority of the nodes, and that only one does.
func (s *scene) believers(t *testing.T, players []*player) {
	t.Helper()
	settle()
	inside := 0
	for _, p := range players {
		p.mu.Lock()
		k := p.k
		p.mu.Unlock()
		if k == nil || k.Context().Err() != nil {
			continue
		}
		inside++
		sure := 0
		for _, n := range s.nodes {
			if n.Value(at) == k.Token() && n.TTL(at) >= time.Until(k.Until()) {
				sure++
			}
		}
		require.Greater(t, sure, len(s.nodes)/2, "at %v", s.Now())
	}
	require.Less(t, inside, 2, "at %v", s.Now())
}
