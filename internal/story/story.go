// Package story tells the same story with the locks of all chapters.
//
// A story drives a lock through one fault in virtual time. What happened becomes a history, a checker gives it a
// verdict, and the verdict has to be the one that the story declares for this chapter: an old bug that stops
// showing up is a failure, exactly like a new one. Nothing here is specific to a chapter but the list in locks.go.
//
//	go test -v ./03-safe-release             tells the chapter's stories, with timelines
//	go test ./03-safe-release -lock=02       judges chapter 2's lock by chapter 3's standard: a true FAIL
package story

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
)

// Story is one fault and what it does to the locks.
type Story struct {
	Claim  string                 // one sentence: what goes wrong
	Tell   func(s *Stage)         // the steps, each at its own instant
	Breaks map[string]sim.Verdict // chapter number → how it breaks; all other chapters hold
	Mutex  bool                   // tell it with a local mutex too, as chapter 00
	From   string                 // the first chapter with whose lock it can be told; all if ""
}

var lockFlag = flag.String("lock", "", "judge the lock of another chapter, such as 02, by this chapter's standard")

// Tell tells a story with every chapter's lock and checks the verdicts. With -lock it tells the story with that
// lock alone, and demands of it what this folder's lock achieves.
func Tell(t *testing.T, s Story) {
	t.Helper()
	if *lockFlag != "" {
		judge(t, s)
		return
	}
	for _, ch := range Chapters {
		if !s.toldWith(ch) {
			continue
		}
		want, word := s.verdict(ch.Number())
		t.Run(ch.Dir+"="+word, func(t *testing.T) { tell(t, s, ch, want) })
	}
}

// toldWith reports whether the story makes sense with a chapter's lock.
func (s Story) toldWith(ch Chapter) bool {
	return ch.Number() >= s.From && (ch.Number() != "00" || s.Mutex)
}

func (s Story) verdict(number string) (want sim.Verdict, word string) {
	if v, breaks := s.Breaks[number]; breaks {
		return v, "breaks"
	}
	return sim.Holds, "holds"
}

func judge(t *testing.T, s Story) {
	ch, ok := ByNumber(*lockFlag)
	if !ok {
		t.Fatalf("-lock=%s: there is no such chapter", *lockFlag)
	}
	dir, err := os.Getwd()
	require.NoError(t, err)
	want, _ := s.verdict(filepath.Base(dir)[:2])
	t.Run(ch.Dir+"=judged", func(t *testing.T) { tell(t, s, ch, want) })
}

// tell runs the story once and compares.
func tell(t *testing.T, s Story, ch Chapter, want sim.Verdict) {
	h := sim.Run(t, func(w *sim.World) { s.Tell(newStage(w, ch)) })
	f := sim.Check(h)
	record(t, s, ch, h, f)
	text := sim.Timeline(h, f, colour())
	if f.Verdict != want {
		t.Errorf("%s\n\n%s\n%s: got the verdict %q, want %q", s.Claim, text, ch.Dir, f.Verdict, want)
		return
	}
	if testing.Verbose() {
		fmt.Fprintf(t.Output(), "%s\n\n%s\n", s.Claim, text)
	}
	if !h.Contended() {
		t.Errorf("nobody met anybody in this story, so it proves nothing:\n\n%s", text)
	}
}

// colour reports whether the output ends up on a terminal. Only the program that started the test knows.
func colour() bool { return os.Getenv("REDISLOCK_COLOUR") == "1" }

// Record is what a story leaves behind for the generator, when REDISLOCK_RECORD names a folder.
type Record struct {
	Folder, Test, Lock, Claim   string
	Verdict                     sim.Verdict
	Why                         string
	Timeline, Coloured, Mermaid string
	History                     *sim.History
}

func record(t *testing.T, s Story, ch Chapter, h *sim.History, f sim.Finding) {
	dir := os.Getenv("REDISLOCK_RECORD")
	if dir == "" {
		return
	}
	here, err := os.Getwd()
	require.NoError(t, err)
	test, _, _ := strings.Cut(t.Name(), "/")
	out, err := json.Marshal(Record{
		Folder: filepath.Base(here), Test: test, Lock: ch.Dir, Claim: s.Claim, Verdict: f.Verdict, Why: f.Why,
		Timeline: sim.Timeline(h, f, false), Coloured: sim.Timeline(h, f, true), Mermaid: sim.Mermaid(h, f), History: h,
	})
	require.NoError(t, err)
	name := fmt.Sprintf("%s.%s.%s.json", filepath.Base(here), test, ch.Dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), out, 0o644))
}

// Stage is the world of one telling: one Redis, or as many as the lock needs, and clients that all use the same chapter's lock.
type Stage struct {
	*sim.World
	Redis   *sim.Node // the first, or only, node
	chapter Chapter
}

func newStage(w *sim.World, ch Chapter) *Stage {
	if ch.Nodes < 2 {
		return &Stage{World: w, Redis: w.Node("Redis"), chapter: ch}
	}
	for i := range ch.Nodes {
		w.Node(fmt.Sprintf("N%d", i+1))
	}
	return &Stage{World: w, Redis: w.Nodes()[0], chapter: ch}
}

// Actor is a client that uses the lock.
type Actor struct {
	*sim.Client
	stage  *Stage
	locker Locker
	ctx    context.Context
	held   []Lock // the innermost last
	seen   int    // what it last read

	stopped []Lock // those of held that are lost
}

// Actor enters the stage with a Redis client and a Locker of its own, like a process.
func (s *Stage) Actor(name string) *Actor {
	c := s.Client(name, s.Redis)
	nodes := []redis.UniversalClient{c.Redis()}
	for _, n := range s.Nodes()[1:] {
		nodes = append(nodes, c.Connect(n))
	}
	a := &Actor{Client: c, stage: s, locker: s.chapter.New(nodes...), ctx: context.Background()}
	if s.chapter.WithOwner != nil {
		a.ctx = s.chapter.WithOwner(a.ctx)
	}
	return a
}

// Actors is several of them.
func (s *Stage) Actors(names ...string) []*Actor {
	var all []*Actor
	for _, name := range names {
		all = append(all, s.Actor(name))
	}
	return all
}

// TryLock lets the actor try once, and begin its work if it gets the lock.
func (a *Actor) TryLock(key string, ttl time.Duration) {
	a.acquire("TryLock", key, ttl, func() (Lock, error) { return a.locker.TryLock(a.ctx, key, ttl) })
}

// Lock lets the actor wait for the lock, and begin its work when it gets it.
func (a *Actor) Lock(key string, ttl, patience time.Duration) {
	a.acquire("Lock", key, ttl, func() (Lock, error) {
		ctx, cancel := context.WithTimeout(a.ctx, patience)
		defer cancel()
		return a.locker.Lock(ctx, key, ttl)
	})
}

func (a *Actor) acquire(method, key string, ttl time.Duration, call func() (Lock, error)) {
	a.Do(func() {
		a.record(sim.Event{Kind: sim.Call, Key: "lock:" + key, Text: method + " " + ttl.String()})
		k, err := call()
		a.returned("lock:"+key, err)
		if err == nil {
			a.keep(k)
			a.record(sim.Event{Kind: sim.Enter, Key: "lock:" + key})
		}
	})
}

// keep remembers what the actor holds. If the lock can tell that it is lost, the actor stops working then. Its process
// ends with the story, whether or not it has unlocked.
func (a *Actor) keep(k Lock) {
	a.held = append(a.held, k)
	if lease, ok := k.(interface{ Context() context.Context }); ok {
		context.AfterFunc(lease.Context(), func() { a.Then(func() { a.stop(k, context.Cause(lease.Context())) }) })
	}
	a.stage.AtEnd(func() {
		if slices.Contains(a.held, k) {
			_ = k.Unlock(context.Background())
		}
	})
}

// stop ends the actor's work because its lock is lost. It still unlocks when the story says so.
func (a *Actor) stop(k Lock, cause error) {
	if errors.Is(cause, context.Canceled) || !slices.Contains(a.held, k) {
		return // that was its own Unlock
	}
	a.stopped = append(a.stopped, k)
	a.record(sim.Event{Kind: sim.Leave, Key: "lock:" + k.Key(), Text: "(lock lost)"})
}

// inside reports whether the actor may work.
func (a *Actor) inside() bool { return len(a.held) > len(a.stopped) }

// Unlock lets the actor end its work and free the lock that it took last. Without a lock it does nothing.
func (a *Actor) Unlock() {
	a.Do(func() {
		if len(a.held) == 0 {
			return
		}
		k := a.held[len(a.held)-1]
		a.held = a.held[:len(a.held)-1]
		if !slices.Contains(a.stopped, k) {
			a.record(sim.Event{Kind: sim.Leave, Key: "lock:" + k.Key()})
		}
		a.record(sim.Event{Kind: sim.Call, Key: "lock:" + k.Key(), Text: "Unlock"})
		a.returned("lock:"+k.Key(), k.Unlock(context.Background()))
	})
}

// returned writes down how a call ended, in the common terms.
func (a *Actor) returned(key string, err error) {
	ch := a.stage.chapter
	e := sim.Event{Kind: sim.Return, Key: key, Outcome: sim.Failed}
	switch {
	case err == nil:
		e.Outcome, e.Text = sim.OK, "done"
	case errors.Is(err, ch.ErrNotAcquired):
		e.Text = sim.Taken
	case errors.Is(err, ch.ErrExpired):
		e.Text = "not held: expired"
	case errors.Is(err, ch.ErrStolen):
		e.Text = "not held: stolen"
	default:
		e.Outcome, e.Text = sim.Unknown, "unknown: "+err.Error()
	}
	a.record(e)
}

func (a *Actor) record(e sim.Event) {
	e.Client = a.Name()
	a.stage.Record(e)
}

// ReadInside lets the actor look at the resource, if it has the lock.
func (a *Actor) ReadInside(r *sim.Resource) {
	a.Do(func() {
		switch fence, fenced := a.fence(); {
		case !a.inside():
		case fenced:
			a.seen, _ = a.ReadFenced(r, fence)
		default:
			a.seen = a.Read(r)
		}
	})
}

// WriteInside lets the actor take one off what it has read, if it has the lock and there was something left.
func (a *Actor) WriteInside(r *sim.Resource) {
	a.Do(func() {
		switch fence, fenced := a.fence(); {
		case !a.inside() || a.seen == 0:
		case fenced:
			a.WriteFenced(r, a.seen-1, fence)
		default:
			a.Write(r, a.seen-1)
		}
	})
}

// fence returns the fencing token of the lock that the actor took last, if its locks have one.
func (a *Actor) fence() (int64, bool) {
	if len(a.held) > 0 {
		if k, ok := a.held[len(a.held)-1].(interface{ Fence() int64 }); ok {
			return k.Fence(), true
		}
	}
	return 0, false
}
