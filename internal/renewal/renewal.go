// Package renewal is what a lock with a lease that renews itself promises, as tests in virtual time: chapters 04 to 07. What all
// locks promise is in the package contract.
//
// Each promise has one Redis, and A, who holds order:1 there since 0s with a ttl of 30 seconds. Chapters 06 and 07 run with a
// majority of one: what concerns one node is the same there, and their own tests have more.
//
// The names start with the kind of fault, see docs/faults.md.
package renewal

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	watchdog "example.com/redislock/04-watchdog"
	reentrant "example.com/redislock/05-reentrant"
	redlock "example.com/redislock/06-redlock"
	failover "example.com/redislock/07-failover-demo"
	"example.com/redislock/internal/sim"
)

// promise is one thing that the lock must get right. If 06 and 07 are exempt, it says why.
type promise struct {
	name     string
	keep     func(t *testing.T, ch chapter)
	majority string
}

// Why a promise of one node is none of a majority.
const (
	oneByOne = "each node is asked one thing at a time, and a majority that does not answer holds up what comes next"
	sameTime = "a request has the same time with each ttl, unless the default is shorter"
	ownCtx   = "a renewal's requests do not have the caller's ctx"
)

// Run checks every promise for one chapter, such as "04".
func Run(t *testing.T, number string) {
	for _, p := range slices.Concat(renewing, deadlines, extending, unlocking) {
		if p.majority != "" && number >= "06" {
			continue
		}
		t.Run(p.name, func(t *testing.T) { p.keep(t, chapters[number]) })
	}
}

// Lock is one acquisition, of any of the chapters.
type Lock interface {
	Token() string
	Until() time.Time
	Context() context.Context
	Extend(ctx context.Context, ttl time.Duration) error
	Unlock(ctx context.Context) error
}

// lockerOf is what the lockers of the chapters have in common.
type lockerOf[K Lock] interface {
	TryLock(ctx context.Context, key string, ttl time.Duration) (K, error)
	Lock(ctx context.Context, key string, ttl time.Duration) (K, error)
	Do(ctx context.Context, key string, ttl time.Duration, fn func(context.Context) error) error
}

// Locker makes all chapters' locks one type.
type Locker = lockerOf[Lock]

type adapter[K Lock] struct{ lockerOf[K] }

func (a adapter[K]) TryLock(ctx context.Context, key string, ttl time.Duration) (Lock, error) {
	return a.lockerOf.TryLock(ctx, key, ttl)
}

func (a adapter[K]) Lock(ctx context.Context, key string, ttl time.Duration) (Lock, error) {
	return a.lockerOf.Lock(ctx, key, ttl)
}

// Options are those of the chapters. What is zero has the chapter's default, except that the nodes of 06 and 07 have as much time
// for an answer as the one of 04.
type Options struct{ RenewEvery, RequestTimeout, MaxHold time.Duration }

// with makes a chapter's own options of them.
func with[O any](o Options, renewEvery, requestTimeout, maxHold func(time.Duration) O) (all []O) {
	for _, set := range []struct {
		value time.Duration
		to    func(time.Duration) O
	}{{o.RenewEvery, renewEvery}, {o.RequestTimeout, requestTimeout}, {o.MaxHold, maxHold}} {
		if set.value != 0 {
			all = append(all, set.to(set.value))
		}
	}
	return all
}

// patient gives a request a second, as 04 and 05 do by themselves.
func (o Options) patient() Options {
	if o.RequestTimeout == 0 {
		o.RequestTimeout = time.Second
	}
	return o
}

// chapter is one of them.
type chapter struct {
	New                                        func(redis.UniversalClient, Options) Locker
	ErrNotHeld, ErrExpired, ErrStolen, ErrLost error

	granted func(token any) any // what the script that acquires answers
}

var chapters = map[string]chapter{
	"04": {
		func(rdb redis.UniversalClient, o Options) Locker {
			opts := with(o, watchdog.WithRenewEvery, watchdog.WithRequestTimeout, watchdog.WithMaxHold)
			return adapter[*watchdog.Lock]{watchdog.New(rdb, opts...)}
		},
		watchdog.ErrNotHeld, watchdog.ErrExpired, watchdog.ErrStolen, watchdog.ErrLockLost,
		func(token any) any { return "OK" },
	},
	"05": {
		func(rdb redis.UniversalClient, o Options) Locker {
			opts := with(o, reentrant.WithRenewEvery, reentrant.WithRequestTimeout, reentrant.WithMaxHold)
			return adapter[*reentrant.Lock]{reentrant.New(rdb, opts...)}
		},
		reentrant.ErrNotHeld, reentrant.ErrExpired, reentrant.ErrStolen, reentrant.ErrLockLost,
		func(token any) any { return []any{int64(1), token} },
	},
	"06": {
		func(rdb redis.UniversalClient, o Options) Locker {
			opts := with(o.patient(), redlock.WithRenewEvery, redlock.WithRequestTimeout, redlock.WithMaxHold)
			l, _ := redlock.New([]redis.UniversalClient{rdb}, opts...)
			return adapter[*redlock.Lock]{l}
		},
		redlock.ErrNotHeld, redlock.ErrExpired, redlock.ErrStolen, redlock.ErrLockLost,
		func(token any) any { return "OK" },
	},
	"07": {
		func(rdb redis.UniversalClient, o Options) Locker {
			opts := with(o.patient(), failover.WithRenewEvery, failover.WithRequestTimeout, failover.WithMaxHold)
			l, _ := failover.New([]redis.UniversalClient{rdb}, opts...)
			return adapter[*failover.Lock]{l}
		},
		failover.ErrNotHeld, failover.ErrExpired, failover.ErrStolen, failover.ErrLockLost,
		func(token any) any { return []any{int64(1)} },
	},
}

var ctx = context.Background()

const (
	lease = 30 * time.Second
	at    = "lock:order:1"
)

// scene is one Redis, and A, who holds order:1 there.
type scene struct {
	*sim.World
	node   *sim.Node
	a      *sim.Client
	locker Locker
	k      Lock
}

// stage lets A take the lock at 0s, and f do the rest. Whoever still holds it in the end lets go.
func (ch chapter) stage(t *testing.T, f func(s *scene), opts ...Options) *sim.History {
	t.Helper()
	return sim.Run(t, func(w *sim.World) {
		s := &scene{World: w, node: w.Node("Redis")}
		s.a = w.Client("A", s.node)
		s.locker = ch.New(s.a.Redis(), append(opts, Options{})[0])
		var err error
		s.k, err = s.locker.TryLock(ctx, "order:1", lease)
		require.NoError(t, err)
		w.AtEnd(func() { _ = s.k.Unlock(ctx) })
		f(s)
	})
}

// times lists when a command was executed, and how it was answered.
func times(h *sim.History, name, reply string) (all []time.Duration) {
	for _, e := range h.Events {
		if e.Kind == sim.Command && e.Text == name && e.Reply == reply {
			all = append(all, e.At)
		}
	}
	return all
}

func (ch chapter) lost(t *testing.T, k Lock, why error) {
	t.Helper()
	require.Error(t, k.Context().Err())
	require.ErrorIs(t, context.Cause(k.Context()), ch.ErrLost)
	if why != nil {
		require.ErrorIs(t, context.Cause(k.Context()), why)
	}
}
