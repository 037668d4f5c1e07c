package sim

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// toy is a lock of a few lines, good or bad, for explorations. The token belongs to the client.
type toy struct {
	acquire func(c *Client, token string) (bool, error)
	release func(c *Client, token string)
}

func setWithTTL(c *Client, token string) (bool, error) {
	err := c.Redis().SetArgs(ctx, "k", token, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	if err == redis.Nil {
		return false, nil
	}
	return err == nil, err
}

func deleteKey(c *Client, _ string) { c.Redis().Del(ctx, "k") }

func keep(*Client, string) {}

func compareAndDelete(c *Client, token string) {
	c.Redis().Eval(ctx, "-- release: mine only\nif redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end", []string{"k"}, token)
}

var (
	good        = toy{acquire: setWithTTL, release: compareAndDelete}
	blindDelete = toy{acquire: setWithTTL, release: deleteKey}
	getThenDel  = toy{acquire: setWithTTL, release: func(c *Client, token string) {
		if c.Redis().Get(ctx, "k").Val() == token {
			deleteKey(c, token)
		}
	}}
	noExclusion = toy{release: compareAndDelete, acquire: func(c *Client, token string) (bool, error) {
		return true, c.Redis().Set(ctx, "k", token, ttl).Err()
	}}
	twoCommands = toy{release: compareAndDelete, acquire: func(c *Client, token string) (bool, error) {
		ok, err := c.Redis().SetNX(ctx, "k", token, 0).Result()
		if ok {
			err = c.Redis().PExpire(ctx, "k", ttl).Err()
		}
		return ok, err
	}}
	// impatient takes the key away from whoever still has it at a second look.
	impatient = toy{release: compareAndDelete, acquire: func(c *Client, token string) (bool, error) {
		ok, err := setWithTTL(c, token)
		if ok || err != nil {
			return ok, err
		}
		first := c.Redis().Get(ctx, "k").Val()
		if second := c.Redis().Get(ctx, "k").Val(); first == second && second != "" {
			deleteKey(c, token)
		}
		return false, nil
	}}
)

// slowDelete looks at the key k times before it deletes it blindly.
func slowDelete(k int) toy {
	return toy{acquire: setWithTTL, release: func(c *Client, token string) {
		for range k {
			c.Redis().Get(ctx, "k")
		}
		deleteKey(c, token)
	}}
}

// through lets a client take the lock, work, and release, once.
func (l toy) through(c *Client, token string) {
	until := c.w.Now() + ttl
	ok, err := l.acquire(c, token)
	e := Event{Kind: Return, Client: c.name, Key: "k", Outcome: Failed, Text: Taken}
	switch {
	case err != nil:
		e.Outcome, e.Text = Unknown, "unknown"
	case ok:
		e.Outcome, e.Text = OK, "done"
	}
	c.w.Record(e)
	if e.Outcome != OK {
		return
	}
	c.w.Record(Event{Kind: Enter, Client: c.name, Key: "k", LeaseEnd: until})
	c.Work()
	c.w.Record(Event{Kind: Leave, Client: c.name, Key: "k"})
	l.release(c, token)
}

// toyPlan lets each client, one letter each, go through the lock once.
func toyPlan(clients string, l toy) Plan {
	return Plan{
		TTL: ttl, Most: 1 << 20,
		Setup: func(w *World) []Process {
			n := w.Node("Redis")
			var all []Process
			for i, name := range strings.Split(clients, "") {
				c := w.Client(name, n)
				all = append(all, Process{Client: c, Run: func() { l.through(c, tokenOf(i)) }})
			}
			return all
		},
		Final: func(w *World) {
			z := w.Client("Z", w.Nodes()[0])
			z.Do(func() {
				if ok, _ := l.acquire(z, tokenOf(99)); !ok {
					w.Record(Event{Kind: Return, Client: "Z", Key: "k", Outcome: Failed, Text: NoOneElse})
				}
			})
		},
	}
}

// majority is a lock on three nodes that asks all of them at once.
func majority(rdbs []redis.UniversalClient, token string, life time.Duration) (votes int) {
	answers := make(chan bool, len(rdbs))
	for _, rdb := range rdbs {
		go func() {
			answers <- rdb.SetArgs(ctx, "k", token, redis.SetArgs{Mode: "NX", TTL: life}).Err() == nil
		}()
	}
	for range rdbs {
		if <-answers {
			votes++
		}
	}
	return votes
}

// majorityPlan lets each client ask for the lock on several nodes, and enter for good with so many votes.
func majorityPlan(clients string, nodes, quorum int) Plan {
	return majorityFor(ttl, clients, nodes, quorum)
}

// majorityFor is a majority lock whose keys live so long: for ever if 0.
func majorityFor(life time.Duration, clients string, nodes, quorum int) Plan {
	return Plan{
		TTL: ttl, Most: 1 << 20,
		Setup: func(w *World) []Process {
			for i := range nodes {
				w.Node("N" + string(rune('1'+i)))
			}
			var all []Process
			for i, name := range strings.Split(clients, "") {
				c := w.Client(name, w.Nodes()[0], once)
				rdbs := []redis.UniversalClient{c.Redis()}
				for _, n := range w.Nodes()[1:] {
					rdbs = append(rdbs, c.Connect(n, once))
				}
				all = append(all, Process{Client: c, Run: func() {
					until := w.Now() + life
					if majority(rdbs, tokenOf(i), life) < quorum {
						return
					}
					if life == 0 {
						until = Forever
					}
					if until == Forever || w.Now() < until {
						w.Record(Event{Kind: Enter, Client: c.name, Key: "k", LeaseEnd: until})
					}
				}})
			}
			return all
		},
	}
}

// renewedPlan lets each client take the lock, work while a goroutine renews the lease once with a script, and release. stop
// says whether the renewal ends before that.
func renewedPlan(clients, script string, stop bool) Plan {
	p := toyPlan(clients, good)
	setup := p.Setup
	p.Renewals = 2
	p.Setup = func(w *World) []Process {
		all := setup(w)
		for i := range all {
			c := all[i].Client
			all[i].Run = func() { renewedThrough(c, tokenOf(i), script, stop) }
		}
		return all
	}
	return p
}

func renewedThrough(c *Client, token, script string, stop bool) {
	lease, cancel := context.WithTimeout(ctx, ttl-s)
	c.w.AtEnd(cancel)
	if ok, err := setWithTTL(c, token); !ok || err != nil || lease.Err() != nil {
		return
	}
	var left sync.Once
	leave := func() { left.Do(func() { c.w.Record(Event{Kind: Leave, Client: c.name, Key: "k"}) }) }
	c.w.Record(Event{Kind: Enter, Client: c.name, Key: "k", LeaseEnd: Forever})
	keepLease := context.AfterFunc(lease, leave)
	go func() {
		select {
		case <-time.After(ttl / 3):
		case <-lease.Done():
			return
		}
		sent := c.w.Now()
		renewed := c.Redis().Eval(ctx, script, []string{"k"}, token, ttl.Milliseconds()).Val() == int64(1)
		if end := sent + ttl - s - c.w.Now(); renewed && end > 0 && keepLease() {
			time.AfterFunc(end, leave)
		}
	}()
	c.Work()
	leave()
	if stop {
		cancel()
	}
	compareAndDelete(c, token)
}

const (
	extendMine = "-- extend: mine only\nif redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end"
	extendAny  = "-- extend: whoever has it\nreturn redis.call('PEXPIRE', KEYS[1], ARGV[2])"
	extendSet  = "-- extend: whatever is there\nredis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\nreturn 1"
)
