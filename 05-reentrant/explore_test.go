package reentrant_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	reentrant "example.com/redislock/05-reentrant"
	"example.com/redislock/internal/sim"
)

// nesting is a reentrant lock without the machinery around it, for explorations: what it sends, and what it remembers. An owner
// acquires with a token that is new each time.
type nesting struct {
	acquire func(o *owner, token string) (entered bool, err error)
	release func(o *owner, token string)
	extend  func(o *owner, tokens ...string) bool // nil: nobody renews
}

// owner is a client of an exploration.
type owner struct {
	*sim.Client
	w     *sim.World
	id    string
	depth int // as far as its own memory goes
}

func (o *owner) eval(script string, args ...any) (any, error) {
	return o.Redis().Eval(ctx, script, []string{at}, args...).Result()
}

// chapter5 are this chapter's scripts, as lock.go sends them.
var chapter5 = nesting{
	acquire: acquireTogether,
	release: func(o *owner, token string) { _, _ = o.eval(reentrant.ReleaseScript, token) },
	extend: func(o *owner, tokens ...string) bool {
		args := []any{lease.Milliseconds()}
		for _, token := range tokens {
			args = append(args, token)
		}
		done, err := o.eval(reentrant.ExtendScript, args...)
		return err == nil && done == int64(1)
	},
}

// unrenewed is the same without a renewal.
var unrenewed = nesting{acquire: chapter5.acquire, release: chapter5.release}

func acquireTogether(o *owner, token string) (bool, error) {
	reply, err := o.eval(reentrant.AcquireScript, token, lease.Milliseconds(), o.id)
	_, taken := reply.(int64)
	return err == nil && !taken, err
}

// The naive ways to nest, each as people write it.
var (
	// innerDeletes takes every Unlock for the last one.
	innerDeletes = nesting{
		acquire: acquireTogether,
		release: func(o *owner, _ string) {
			_, _ = o.eval("-- release: the owner's\nlocal value = redis.call('GET', KEYS[1])\n"+
				"if value and string.sub(value, 1, 32) == ARGV[1] then redis.call('DEL', KEYS[1]) end", o.id)
		},
	}
	// twoKeys counts in a second key, which no script changes together with the first.
	twoKeys = nesting{
		acquire: func(o *owner, _ string) (bool, error) {
			err := o.Redis().SetArgs(ctx, at, o.id, redis.SetArgs{Mode: "NX", TTL: lease}).Err()
			if err == redis.Nil && o.Redis().Get(ctx, at).Val() != o.id {
				return false, nil
			}
			return true, o.Redis().Incr(ctx, at+":depth").Err()
		},
		release: func(o *owner, _ string) {
			if o.Redis().Decr(ctx, at+":depth").Val() == 0 {
				o.Redis().Del(ctx, at)
			}
		},
	}
	// getThenSet counts in the value, "owner:depth", and looks at it before it changes it.
	getThenSet = nesting{
		acquire: func(o *owner, _ string) (bool, error) {
			err := o.Redis().SetArgs(ctx, at, o.id+":1", redis.SetArgs{Mode: "NX", TTL: lease}).Err()
			if err != redis.Nil {
				return err == nil, err
			}
			id, depth := o.look()
			if id != o.id {
				return false, nil
			}
			return true, o.Redis().Set(ctx, at, fmt.Sprintf("%s:%d", o.id, depth+1), lease).Err()
		},
		release: func(o *owner, _ string) {
			switch id, depth := o.look(); {
			case id != o.id:
			case depth > 1:
				o.Redis().Set(ctx, at, fmt.Sprintf("%s:%d", o.id, depth-1), lease)
			default:
				o.Redis().Del(ctx, at)
			}
		},
	}
	// freshUUID takes every call for an owner of its own.
	freshUUID = nesting{
		acquire: func(o *owner, token string) (bool, error) {
			reply, err := o.eval(reentrant.AcquireScript, token, lease.Milliseconds(), token)
			_, taken := reply.(int64)
			return err == nil && !taken, err
		},
		release: chapter5.release,
	}
	// localCounter asks Redis only for the first acquisition and the last release.
	localCounter = nesting{
		acquire: func(o *owner, token string) (bool, error) {
			if o.depth > 0 {
				o.Work() // it has worked for a while before it comes here
				return true, nil
			}
			return acquireTogether(o, token)
		},
		release: func(o *owner, _ string) {
			if o.depth == 0 {
				innerDeletes.release(o, "")
			}
		},
	}
)

func (o *owner) look() (id string, depth int) {
	id, count, _ := strings.Cut(o.Redis().Get(ctx, at).Val(), ":")
	depth, _ = strconv.Atoi(count)
	return id, depth
}

// nest is what each owner does: it enters twice and leaves twice, and is inside while its next command waits at the gate.
func (l nesting) nest(o *owner) {
	outer, inner := o.id[:31]+"1", o.id[:31]+"2"
	if !l.enter(o, outer) {
		return
	}
	if l.enter(o, inner) {
		l.leave(o, inner)
	}
	if l.extend != nil {
		l.renew(o, outer)
	}
	o.Work()
	l.leave(o, outer)
}

func (l nesting) enter(o *owner, token string) bool {
	until := o.w.Now() + lease
	o.w.Record(sim.Event{Kind: sim.Call, Client: o.Name(), Key: at, Text: "TryLock " + lease.String()})
	entered, err := l.acquire(o, token)
	e := sim.Event{Kind: sim.Return, Client: o.Name(), Key: at, Outcome: sim.Failed, Text: sim.Taken}
	switch {
	case err != nil:
		e.Outcome, e.Text = sim.Unknown, "unknown"
	case entered:
		e.Outcome, e.Text = sim.OK, "done"
	}
	o.w.Record(e)
	if e.Outcome != sim.OK {
		return false
	}
	o.depth++
	o.w.Record(sim.Event{Kind: sim.Enter, Client: o.Name(), Key: at, LeaseEnd: until})
	return true
}

func (l nesting) leave(o *owner, token string) {
	o.depth--
	o.w.Record(sim.Event{Kind: sim.Leave, Client: o.Name(), Key: at})
	l.release(o, token)
}

// renew is one renewal, while the owner is at depth 1. When it succeeds, the lease lasts longer.
func (l nesting) renew(o *owner, token string) {
	until := o.w.Now() + lease
	if l.extend(o, token) {
		o.w.Record(sim.Event{Kind: sim.Leave, Client: o.Name(), Key: at})
		o.w.Record(sim.Event{Kind: sim.Enter, Client: o.Name(), Key: at, LeaseEnd: until})
	}
}

// plan lets A and B nest. Each TTL may end at any moment, and one of them may crash.
func (l nesting) plan(crashes, most int) sim.Plan {
	number := func(n int) string { return fmt.Sprintf("%032x", n<<8) }
	return sim.Plan{
		TTL: lease, Crashes: crashes, Renewals: 2, Most: most,
		Setup: func(w *sim.World) []sim.Process {
			n := w.Node("Redis")
			var all []sim.Process
			for i, name := range []string{"A", "B"} {
				o := &owner{Client: w.Client(name, n), w: w, id: number(i + 1)}
				all = append(all, sim.Process{Client: o.Client, Run: func() { l.nest(o) }})
			}
			return all
		},
		Final: func(w *sim.World) {
			z := &owner{Client: w.Client("Z", w.Nodes()[0]), w: w, id: number(26)}
			z.Do(func() {
				if entered, _ := l.acquire(z, z.id[:31]+"1"); !entered {
					w.Record(sim.Event{Kind: sim.Return, Client: "Z", Key: at, Outcome: sim.Failed, Text: sim.NoOneElse})
				}
			})
		},
	}
}

// N2: two owners enter twice and leave twice, each TTL ends at any moment, and one of them crashes anywhere, or both renew: this
// chapter's scripts let nobody in beside another's lease, in no order there is. Every naive way to nest is found out.
func TestEveryOrder(t *testing.T) {
	for _, tt := range []struct {
		name    string
		lock    nesting
		crashes int
		most    int                    // schedules: the shortest come first
		finds   map[sim.Verdict]string // and their shortest schedules
	}{
		{name: "chapter 5", lock: unrenewed, most: 100_000},
		{name: "chapter 5, a crash, long", lock: unrenewed, crashes: 1, most: 100_000},
		{name: "chapter 5, a renewal, long", lock: chapter5, most: 100_000},
		{"inner unlock deletes", innerDeletes, 0, 100, map[sim.Verdict]string{sim.TwoValidLeases: "A.A.A.B"}},
		{"lock and counter in two keys", twoKeys, 0, 1_500, map[sim.Verdict]string{
			sim.TwoValidLeases: "A.t.B.B.B.B.B.A", sim.DeletedOthers: "A.A.A.t.A.A.A.B.A", sim.RenewedOthers: "A.A.A.A.A.t.B.B.A",
		}},
		{"GET then SET", getThenSet, 0, 1_500, map[sim.Verdict]string{
			sim.DeletedOthers: "A.t.A.A.t.B.A", sim.TwoValidLeases: "A.A.A.t.B.B.B.B.A",
			sim.RenewedOthers: "A.A.A.A.A.t.B.A", sim.Revived: "A.A.A.A.A.t.A",
		}},
		{"a fresh UUID per call", freshUUID, 0, 100, map[sim.Verdict]string{sim.SelfBlocked: "A.A"}},
		{"a local counter", localCounter, 0, 100, map[sim.Verdict]string{sim.TwoValidLeases: "A.t.B.B.A"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.finds == nil && testing.Short() || strings.HasSuffix(tt.name, "long") && os.Getenv("REDISLOCK_LONG") == "" {
				t.Skip("takes a minute; run it with REDISLOCK_LONG=1, as CI does")
			}
			r := sim.Once(t, func() sim.Report { return sim.Explore(t, tt.lock.plan(tt.crashes, tt.most)) })
			t.Logf("%d schedules of up to %d steps lead to %d states in %v", r.Schedules, r.Longest, r.States, r.Elapsed)
			found := map[sim.Verdict]string{}
			for _, c := range r.Shortest {
				found[c.Finding.Verdict] = c.Schedule
				t.Logf("%s: %s\n\n%s", c.Finding.Verdict, c.Schedule, sim.Timeline(c.History, c.Finding, false))
			}
			if tt.finds == nil {
				require.Empty(t, found)
				require.True(t, r.Exhaustive)
				return
			}
			require.Equal(t, tt.finds, found)
		})
	}
}

// nested is the same with the lock itself, its renewer and its deadline. Who is told that the lease is over leaves.
func nested(w *sim.World, c *sim.Client) {
	locker, mine := reentrant.New(c.Redis()), reentrant.WithOwner(ctx)
	enter := func() (leave func(), entered bool) {
		w.Record(sim.Event{Kind: sim.Call, Client: c.Name(), Key: at, Text: "TryLock " + lease.String()})
		e := sim.Event{Kind: sim.Return, Client: c.Name(), Key: at, Outcome: sim.OK, Text: "done"}
		k, err := locker.TryLock(mine, "order:1", lease)
		if errors.Is(err, reentrant.ErrNotAcquired) {
			e.Outcome, e.Text = sim.Failed, sim.Taken
		} else if err != nil {
			e.Outcome, e.Text = sim.Unknown, "unknown"
		}
		w.Record(e)
		if err != nil {
			return nil, false
		}
		w.Record(sim.Event{Kind: sim.Enter, Client: c.Name(), Key: at, LeaseEnd: sim.Forever})
		out := sync.OnceFunc(func() { w.Record(sim.Event{Kind: sim.Leave, Client: c.Name(), Key: at}) })
		context.AfterFunc(k.Context(), out)
		w.AtEnd(func() { _ = k.Unlock(ctx) }) // its process ends with the schedule
		return func() {
			out()
			_ = k.Unlock(ctx)
		}, true
	}
	leaveOuter, entered := enter()
	if !entered {
		return
	}
	if leaveInner, entered := enter(); entered {
		leaveInner()
	}
	c.Work()
	leaveOuter()
}

// N2: what the scripts promise the lock keeps, with all that it has running beside them.
func TestEveryOrderOfTheLock(t *testing.T) {
	for _, tt := range []struct {
		name              string
		crashes, renewals int
	}{
		{name: "no renewal arrives"},
		{name: "a crash, long", crashes: 1},
		{name: "a renewal, long", renewals: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.HasSuffix(tt.name, "long") && os.Getenv("REDISLOCK_LONG") == "" {
				t.Skip("takes a minute; run it with REDISLOCK_LONG=1, as CI does")
			}
			p := unrenewed.plan(tt.crashes, 100_000)
			p.Renewals = tt.renewals
			p.Setup = func(w *sim.World) (all []sim.Process) {
				n := w.Node("Redis")
				for _, name := range []string{"A", "B"} {
					c := w.Client(name, n)
					all = append(all, sim.Process{Client: c, Run: func() { nested(w, c) }})
				}
				return all
			}
			r := sim.Once(t, func() sim.Report { return sim.Explore(t, p) })
			t.Logf("%d schedules of up to %d steps lead to %d states in %v", r.Schedules, r.Longest, r.States, r.Elapsed)
			for _, c := range r.Shortest {
				t.Errorf("%s: %s\n\n%s", c.Finding.Verdict, c.Schedule, sim.Timeline(c.History, c.Finding, false))
			}
			require.True(t, r.Exhaustive)
		})
	}
}
