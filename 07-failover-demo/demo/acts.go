package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/redislock/internal/redistest"
)

// act is a fault that all locks go through, each with servers and workers of its own.
type act struct {
	name, short, title string

	ttl     time.Duration
	group   bool // the first node is a primary with a replica, under Sentinels
	real    bool // embedded nodes won't do
	signals bool // it stops a worker, which not every system can

	oversells []string // the numbers of the locks that sell more than there is, as documented
	refuses   []string // of those whose late write the shop refuses
	tells     []string // of those that tell a worker to stop
	play      func(context.Context, *scene) error
}

// scene is one lock in one act.
type scene struct {
	act   act
	lock  lock
	cast  cast
	nodes []node
	group *redistest.Group
	crew  *crew
	now   func(what string) // says what is happening
}

// cast is how large a scene is.
type cast struct {
	workers int
	outage  time.Duration // how long act 3 keeps two servers down
}

const (
	long   = 30 * time.Second // longer than any of the acts, so only the fault can end the lease
	medium = 5 * time.Second  // longer than the outage; a key that a dead server keeps blocks nobody for longer
	short  = 1500 * time.Millisecond
)

var acts = []act{
	{
		name: "1", short: "steady", title: "nothing happens", ttl: long, play: steady,
		oversells: []string{"00"},
	}, {
		name: "2", short: "failover", title: "the primary is killed while its replica lags, Sentinel promotes", ttl: long, play: failOver,
		group: true, real: true, oversells: []string{"01", "02", "03", "04", "05"},
	}, {
		name: "3", short: "restarts", title: "two servers are killed, and come back with their data", ttl: medium, play: restart,
	}, {
		name: "4", short: "frozen worker", title: "a worker is stopped before its write, past its lease", ttl: short, play: frozen,
		signals: true, oversells: []string{"01", "02", "03", "04", "05", "06"}, refuses: []string{"07"},
	}, {
		name: "5", short: "hung Redis", title: "Redis hangs for two leases", ttl: short, play: hung,
		real: true, oversells: []string{"01", "02", "03"}, tells: []string{"04", "05"},
	},
}

// steady is the sale and nothing else.
func steady(_ context.Context, s *scene) error { return s.hire(s.cast.workers) }

// failOver loses the key of the first worker, who is inside and knows nothing.
func failOver(ctx context.Context, s *scene) error {
	s.now("the replica is cut off")
	s.group.CutReplication()
	if err := s.enter(ctx, holds); err != nil {
		return err
	}
	primary := s.group.Primary.Client(s.crew.stage)
	key, err := primary.Get(ctx, "lock:"+lockKey).Result()
	for late := time.Now().Add(time.Second); errors.Is(err, redis.Nil) && time.Now().Before(late); { // one of five may be the last
		time.Sleep(10 * time.Millisecond)
		key, err = primary.Get(ctx, "lock:"+lockKey).Result()
	}
	if err != nil {
		return fmt.Errorf("the primary has no key to lose: %w", err)
	}
	s.now("the primary is killed, the Sentinels promote the replica")
	s.group.LosePrimary()
	kept, err := s.group.Replica.Client(s.crew.stage).Get(ctx, "lock:"+lockKey).Result()
	if err == nil && kept == key && s.lock.number() != "01" { // where all keys look the same
		return errors.New("the replica has kept the key, so this was no test")
	}
	return s.release(ctx)
}

// restart leaves the others with what is left of the servers.
func restart(ctx context.Context, s *scene) error {
	if err := s.enter(ctx, holds); err != nil {
		return err
	}
	down := s.nodes[:min(2, len(s.nodes))]
	s.now("servers are down")
	for _, n := range down {
		n.Kill()
	}
	if err := s.crew.workers[0].word(); err != nil {
		return err
	}
	if err := pause(ctx, s.cast.outage); err != nil {
		return err
	}
	for _, n := range down {
		n.Revive()
	}
	return nil
}

// frozen stops the first worker between its last look at its lease and its write.
func frozen(ctx context.Context, s *scene) error {
	if err := s.enter(ctx, freezes); err != nil {
		return err
	}
	first := s.crew.workers[0]
	s.now("the first worker is stopped, inside")
	first.Pause()
	if err := s.crew.await(ctx, "others have sold", othersHaveSold); err != nil {
		return err
	}
	first.Resume()
	return first.word()
}

// hung stops a server for twice as long as a lease. What was sent to it meanwhile it executes afterwards.
func hung(ctx context.Context, s *scene) error {
	if err := s.enter(ctx, holds); err != nil {
		return err
	}
	n := s.nodes[0].(real)
	s.now("Redis hangs")
	n.Pause()
	err := pause(ctx, 2*s.act.ttl)
	n.Resume()
	if err != nil {
		return err
	}
	return s.release(ctx)
}

// enter lets the first worker in, and then hires the others and lets each of them find the lock taken.
func (s *scene) enter(ctx context.Context, r role) error {
	s.now("the first worker enters, the others come")
	if err := s.crew.hire(r); err != nil {
		return err
	}
	inside := func(h history) bool { return h.told(0, waiting) }
	if err := s.crew.await(ctx, "the first worker is inside", inside); err != nil {
		return err
	}
	if err := s.hire(s.cast.workers - 1); err != nil {
		return err
	}
	return s.crew.await(ctx, "the others have been refused", func(h history) bool {
		return h.allRefused(s.cast.workers, 1)
	})
}

// enough is how many items the others sell before the first worker goes on.
const enough = 10

func othersHaveSold(h history) bool { return h.others(sold) >= enough }

// release lets the first worker go on once the fault has had its effect, or has had none: others have sold, or its
// lease has told it to stop, or all others have tried again, and were refused.
func (s *scene) release(ctx context.Context) error {
	before, _ := s.crew.look()
	err := s.crew.await(ctx, "it is clear what the fault has done", func(h history) bool {
		since := h[len(before):]
		return othersHaveSold(h) || h.told(0, lost) ||
			h.others(entered) == 0 && since.allRefused(s.cast.workers, 2)
	})
	if err != nil {
		return err
	}
	return s.crew.workers[0].word()
}

func (s *scene) hire(n int) error {
	for range n {
		if err := s.crew.hire(sells); err != nil {
			return err
		}
	}
	return nil
}

// pause lets a fault last.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func findAct(name string) (act, bool) {
	i := slices.IndexFunc(acts, func(a act) bool { return a.name == name })
	if i < 0 {
		return act{}, false
	}
	return acts[i], true
}

// impossible says what is missing for this act, if something is.
func (a act) impossible(embedded bool) string {
	switch {
	case a.real && embedded:
		return "redis-server"
	case a.signals && !redistest.CanPause:
		return "a system that can stop a process"
	}
	return ""
}

// result is how one lock came through one act.
type result struct {
	Act  string `json:"act"`
	Lock string `json:"lock"`
	figures
	Took     time.Duration `json:"took_ns"`
	Embedded bool          `json:"embedded,omitempty"`
	Error    string        `json:"error,omitempty"`
	Kept     string        `json:"kept,omitempty"` // the folder
	AsSaid   bool          `json:"as_documented"`
}

// run plays one act with one lock.
func run(ctx context.Context, a act, l lock, o options, out *report) result {
	out.begin(a, l)
	if o.board != nil {
		o.board.begin(a, l)
	}
	r := result{Act: a.name, Lock: l.name, Embedded: o.embedded}
	start := time.Now()
	err := onStage(o.keep, func(st *stage) error {
		out.now("the servers start")
		if o.keep {
			r.Kept = st.root
		}
		s, err := build(ctx, st, a, l, o)
		if err != nil {
			return err
		}
		s.now = out.now
		if err := a.play(ctx, s); err != nil {
			return err
		}
		s.now("the sale goes on")
		events, err := s.crew.finish(ctx)
		r.figures = events.figures()
		if o.watch != nil {
			o.watch(events)
		}
		return err
	})
	r.Took = time.Since(start)
	if err != nil {
		r.Error = err.Error()
	}
	r.AsSaid = err == nil && a.said(l, r.figures)
	return r
}

// said reports whether this is what the documentation says. A lease may tell its holder to stop elsewhere too: on a
// machine that stands still for longer than the lease.
func (a act) said(l lock, f figures) bool {
	in := func(numbers []string) bool { return slices.Contains(numbers, l.number()) }
	return in(a.oversells) == (f.Oversold > 0) && in(a.refuses) == (f.Refused > 0) && (f.Told > 0 || !in(a.tells)) &&
		f.Sold >= items && f.Failed == 0
}

// build starts the servers: the shop's, and those that the lock is on.
func build(ctx context.Context, st *stage, a act, l lock, o options) (*scene, error) {
	s := &scene{act: a, lock: l, cast: o.cast}
	shop := st.startNode(o.embedded)
	rdb := redis.NewClient(&redis.Options{Addr: shop.Addr()})
	defer rdb.Close()
	if err := openShop(rdb, l.fenced).Write(ctx, items, 1); err != nil {
		return nil, fmt.Errorf("fill the shop: %w", err)
	}
	j := job{Lock: l.name, TTL: a.ttl, Shop: shop.Addr()}
	for i := range l.nodes {
		if i == 0 && a.group {
			s.group = redistest.StartGroup(st)
			j.Group, j.Sentinels = s.group.Options().MasterName, s.group.Options().SentinelAddrs
			j.Nodes = append(j.Nodes, s.group.Primary.Addr())
			continue
		}
		s.nodes = append(s.nodes, st.startNode(o.embedded))
		j.Nodes = append(j.Nodes, s.nodes[len(s.nodes)-1].Addr())
	}
	s.crew = newCrew(st, j, o.board)
	return s, nil
}
