package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/redislock/internal/story"
)

// What most trials lock, and for how long: long enough for it never to end by itself on a real server.
const (
	key   = "order:1"
	at    = "lock:" + key // where the key is in Redis
	lease = 30 * time.Second
)

var ctx = context.Background()

// trial is one promise on its way to be kept or broken, by one chapter's lock on one rig.
type trial struct {
	Rig
	ch chapter

	mu      sync.Mutex
	found   []finding
	handles []story.Lock // all that were acquired
}

// finding is something that must not be. What is the same every time is the violation, the rest are details.
type finding struct{ violation, details string }

// want notes a violation unless ok, and of the same violation only the first.
func (t *trial) want(ok bool, violation string, details ...any) {
	if ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.ContainsFunc(t.found, func(f finding) bool { return f.violation == violation }) {
		t.found = append(t.found, finding{violation, fmt.Sprint(details...)})
	}
}

// violations lists what was found.
func (t *trial) violations() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, f := range t.found {
		all = append(all, f.violation)
	}
	return all
}

func (t *trial) details() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, f := range t.found {
		if f.details != "" {
			fmt.Fprintf(&b, "    %s: %s\n", f.violation, f.details)
		}
	}
	return b.String()
}

// class is a kind of answer. A caller has to be able to tell them apart with errors.Is.
type class string

const (
	success   class = "success"
	taken     class = "taken"
	notHeld   class = "not held"
	expired   class = "not held, expired"
	stolen    class = "not held, stolen"
	deadline  class = "deadline"
	cancelled class = "cancelled"
	failed    class = "another error"
)

// classes lists every class that an error belongs to.
func (t *trial) classes(err error) []class {
	if err == nil {
		return []class{success}
	}
	var all []class
	add := func(c class, target error) bool {
		is := errors.Is(err, target)
		if is {
			all = append(all, c)
		}
		return is
	}
	add(taken, t.ch.ErrNotAcquired)
	if !t.tellsLosses() || !add(expired, t.ch.ErrExpired) && !add(stolen, t.ch.ErrStolen) {
		add(notHeld, t.ch.ErrNotHeld)
	}
	add(deadline, context.DeadlineExceeded)
	add(cancelled, context.Canceled)
	if all == nil {
		all = append(all, failed)
	}
	return all
}

// tellsLosses reports whether the chapter distinguishes expired from stolen. Chapter 1 doesn't.
func (t *trial) tellsLosses() bool { return t.ch.ErrExpired != t.ch.ErrStolen }

// returns wants an answer to belong to exactly these classes.
func (t *trial) returns(err error, call string, want ...class) {
	for i, c := range want {
		if (c == expired || c == stolen) && !t.tellsLosses() {
			want[i] = notHeld
		}
	}
	got := t.classes(err)
	t.want(slices.Equal(got, want), fmt.Sprintf("%s answers %q and not %q", call, got, want), err)
}

// tells wants an error of Redis' to say which lock it is about and what Redis has said, and to be found as a redis.Error.
func (t *trial) tells(err error, call, message string) {
	var answer redis.Error
	t.want(errors.As(err, &answer) && strings.Contains(err.Error(), message), call+" hides what Redis says", err)
	t.want(err != nil && strings.Contains(err.Error(), key), call+" does not say which lock it is about", err)
}

// state is what Redis has under a key.
type state struct {
	kind  string // "none" if there is no such key
	value string // of a string
	ttl   time.Duration
}

// forever is the ttl of a key without one.
const forever = time.Duration(-1)

func (t *trial) look(at string) state {
	s := state{kind: t.Truth().Type(ctx, at).Val(), ttl: t.Truth().PTTL(ctx, at).Val()}
	if s.kind == "string" {
		s.value = t.Truth().Get(ctx, at).Val()
	}
	return s
}

// free wants a key to be gone.
func (t *trial) free(at string) {
	if t.ch.background {
		untilWithin(5*time.Second, func() bool { return t.look(at).kind == "none" })
	}
	s := t.look(at)
	t.want(s.ttl != forever, "the key stays for ever", s)
	t.want(s.kind == "none" || s.ttl == forever, "the key stays", s)
}

// leased wants a key to be there, with a value and a TTL of at most ttl, and returns its value.
func (t *trial) leased(at string, ttl time.Duration) string {
	s := t.look(at)
	t.want(s.ttl != forever, "the key stays for ever", s)
	t.want(s.kind == "string" && s.value != "", "there is no key", s)
	t.want(s.ttl == forever || s.ttl <= ttl, "the key stays longer than its ttl", s)
	return s.value
}

// expiresWithin wants that a key, if there is one, does not outlive ttl.
func (t *trial) expiresWithin(at string, ttl time.Duration) {
	s := t.look(at)
	t.want(s.ttl != forever, "the key stays for ever", s)
	t.want(s.ttl <= ttl, "the key stays longer than its ttl", s)
}

// untouched wants a key to have the value it had.
func (t *trial) untouched(at, value string) {
	s := t.look(at)
	t.want(s.kind == "string" && s.value == value, "another's key is touched", s)
}

// loses ends a lease at once: its TTL ends, or an operator removes the key. The trial need not wait for it.
func (t *trial) loses(at string) { t.Truth().Del(ctx, at) }

// foreign puts a key there that some other program made.
func (t *trial) foreign(at string, ttl time.Duration) { t.Truth().Set(ctx, at, "foreign", ttl) }

// client is a process that uses the lock.
type client struct {
	Link
	t      *trial
	locker story.Locker
}

func (t *trial) client(name string, opts ...func(*redis.Options)) *client {
	link := t.Link(name, opts...)
	return &client{Link: link, t: t, locker: t.ch.New(link.Redis())}
}

func (c *client) tryLock(ctx context.Context, key string, ttl time.Duration) (story.Lock, error) {
	return c.either(c.locker.TryLock(ctx, key, ttl))
}

func (c *client) lock(ctx context.Context, key string, ttl time.Duration) (story.Lock, error) {
	return c.either(c.locker.Lock(ctx, key, ttl))
}

// either wants a handle or an error. Every trial checks it on its way.
func (c *client) either(k story.Lock, err error) (story.Lock, error) {
	c.t.want(k == nil || err == nil, "a handle comes with an error", err)
	c.t.want(k != nil || err != nil, "neither a handle nor an error is returned")
	if k != nil {
		c.t.mu.Lock()
		c.t.handles = append(c.t.handles, k)
		c.t.mu.Unlock()
	}
	return k, err
}

// end ends what a lock has running in the background, for handles that the trial has not unlocked.
func (t *trial) end() {
	if !t.ch.background {
		return
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	for _, k := range t.handles {
		_ = k.Unlock(done)
	}
}

// holds lets the client acquire the key where nothing is in the way, and returns the handle and what Redis has for it.
func (c *client) holds(key string) (story.Lock, string) {
	k, err := c.tryLock(ctx, key, lease)
	c.t.returns(err, "TryLock with nothing in the way", success)
	return k, c.t.look("lock:" + key).value
}

var errNoHandle = errors.New("there is no handle to unlock")

// unlock is Unlock, also after a broken promise has left the trial without a handle.
func unlock(ctx context.Context, k story.Lock) error {
	if k == nil {
		return errNoHandle
	}
	return k.Unlock(ctx)
}

// begin runs f on its own and returns a function that waits for its end.
func begin(f func()) (end func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return func() { <-done }
}

// until returns when something is so, or after a minute, in which case the trial finds out itself.
func until(so func() bool) { untilWithin(time.Minute, so) }

func untilWithin(limit time.Duration, so func() bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !so() && time.Now().Before(end); {
		<-tick.C
	}
}

// tries waits until a client has sent something.
func tries(c *client) {
	before := len(c.Requests())
	until(func() bool { return len(c.Requests()) > before })
}

// took wants that no more time than limit has passed since start.
func (t *trial) took(start time.Time, limit time.Duration, violation string) {
	t.want(time.Since(start) <= limit+t.Slack(), violation, time.Since(start))
}
