// Package reentrant is chapter 5: a Redis lock that its owner may take again.
//
// With chapter 4's lock, a function that holds the lock and calls another that takes it too waits for itself. Here a lock
// has an owner, which is carried in the ctx: a random value, put there by WithOwner. It is not the goroutine, the process or
// the host, which say little about who is at work and are equal in two containers. The owner enters again at once, every
// acquisition has a handle and a token of its own, and the last Unlock frees the key. The key holds all of that in one
// string, "owner:hold,token,token", so one script changes it in one step, and no counter elsewhere can disagree.
//
// Guaranteed, on one Redis that keeps its data:
//   - Mutual exclusion between owners, for as long as Context has not ended. Without WithOwner each acquisition is its
//     own owner, and this is chapter 4's lock.
//   - A nested acquisition never shortens the lease, and its Unlock neither frees the key nor ends the renewal.
//   - An acquisition or a release that is executed twice counts once. An Unlock too many writes nothing. Only a copy of an
//     acquisition that arrives after its release stays: see TestCopyAfterTheReleaseStaysForItsTTL.
//   - An Unlock works when Redis refuses everything that needs memory.
//   - It excludes the locks of chapters 2 to 4 on the same key, and they exclude it.
//   - All that chapter 4 guarantees, for every handle.
//
// Not guaranteed:
//   - Whoever has the ctx is the owner. Two goroutines with one ctx are both inside, at the same time.
//   - A paused process notices nothing while it is paused, and may write after its lease: see TestHolderFrozen.
//   - A failover that loses the key loses the lock: see TestFailover.
//   - A holder that never unlocks holds for ever, unless WithMaxHold says otherwise.
package reentrant

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// The answers of a lock, for errors.Is. Any other error is the context's own or a Redis error, and after
// a Redis error the outcome is unknown.
var (
	// ErrNotAcquired says that somebody else holds the lock.
	ErrNotAcquired = errors.New("lock not acquired: somebody else holds it")
	// ErrNotHeld says that this acquisition does not own the key. ErrExpired and ErrStolen match it too.
	ErrNotHeld = errors.New("lock not held")
	// ErrExpired says that the key is gone: its TTL ended, or somebody removed it.
	ErrExpired = fmt.Errorf("%w: its key is gone", ErrNotHeld)
	// ErrStolen says that the key belongs to another acquisition.
	ErrStolen = fmt.Errorf("%w: its key belongs to another acquisition", ErrNotHeld)
	// ErrLockLost is the cause with which Lock.Context ends when the lease is lost or can't be guaranteed any longer.
	ErrLockLost = errors.New("lock lost")
)

// Chapter 4 compared the whole value with one token, so the owner's second acquisition found a stranger. Here the value
// is "owner:hold,token,token": who, since which acquisition, and all that have not been released. A copy that go-redis
// resends finds its token there and adds nothing. The lease may get longer, and never shorter: others count on it.
const acquireScript = `-- acquire: {depth, hold}, or how many milliseconds the other owner has left
local value = ARGV[3]..':'..ARGV[1]..','..ARGV[1]
if redis.call('SET', KEYS[1], value, 'NX', 'PX', ARGV[2]) then return {1, ARGV[1]} end
value = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
local owner, hold = string.match(value, '^(%x+):(%x+),')
if owner ~= ARGV[3] then return left end
if not string.find(value, ','..ARGV[1], 1, true) then
	value = value..','..ARGV[1]
	redis.call('SET', KEYS[1], value, 'KEEPTTL')
	if left >= 0 and left < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
end
local _, depth = string.gsub(value, ',', ',')
return {depth, hold}`

// One token leaves the list, and the key goes with the last. A handle that lost its lease finds its token missing, even if
// its owner holds the key again: owner and depth alone would let it release the newer acquisition.
const releaseScript = `-- release: 1 done, 0 the key is gone, -1 it belongs to somebody else
local value = redis.call('GET', KEYS[1])
if not value then return 0 end
local from, to = string.find(value, ','..ARGV[1], 1, true)
if not from then return -1 end
local left = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
value = string.sub(value, 1, from - 1)..string.sub(value, to + 1)
if string.find(value, ',', 1, true) then
	-- Without the DEL before it, a Redis that is out of memory would refuse this, and the lock could not come free.
	redis.call('SET', KEYS[1], value, 'PX', math.max(left, 1))
	if left < 0 then redis.call('PERSIST', KEYS[1]) end
end
return 1`

// Compare and PEXPIRE in one step, for the reason that made the release a script. PEXPIRE alone would prolong
// another's lease, a SET would revive a key that is gone, and a TTL of 0 or less would delete it and answer 1.
// If the list has a token that the sender does not know of, it can't know what that one counts on: nothing gets shorter.
const extendScript = `-- extend: 1 done, 0 the key is gone, -1 it belongs to somebody else
local value = redis.call('GET', KEYS[1])
if not value then return 0 end
local known, ttl = 0, tonumber(ARGV[1])
for i = 2, #ARGV do
	if string.find(value, ','..ARGV[i], 1, true) then known = known + 1 end
end
if known == 0 then return -1 end
if ttl < 1 then return redis.error_reply('ERR a lease must be at least a millisecond') end
local _, depth = string.gsub(value, ',', ',')
if known < depth then ttl = math.max(ttl, redis.call('PTTL', KEYS[1])) end
return redis.call('PEXPIRE', KEYS[1], ttl)`

// unlockBudget bounds one Unlock, and the clean-up after a failed attempt.
const unlockBudget = 2 * time.Second

// unlockGrace is how long an Unlock whose ctx ends still waits for its answer.
const unlockGrace = 50 * time.Millisecond

// Locker makes locks on one Redis. It is configuration only and safe for concurrent use.
type Locker struct {
	rdb              redis.UniversalClient
	minWait, maxWait time.Duration

	renewEvery, requestTimeout, maxHold time.Duration // 0: see the options
}

// Option configures a Locker.
type Option func(*Locker)

// WithBackoff sets how long Lock pauses between attempts: at first up to the one, then twice as long each
// time, up to the other. The default is 10 ms and 500 ms.
func WithBackoff(first, longest time.Duration) Option {
	return func(l *Locker) { l.minWait, l.maxWait = first, longest }
}

// WithRenewEvery sets the time between renewals. The default is a third of the ttl.
func WithRenewEvery(d time.Duration) Option { return func(l *Locker) { l.renewEvery = d } }

// WithRequestTimeout bounds each request to Redis. The default is a second, or a quarter of the ttl if that is shorter.
func WithRequestTimeout(d time.Duration) Option { return func(l *Locker) { l.requestTimeout = d } }

// WithMaxHold ends every lease after d, however long its holder works: a holder that hangs must not hold for ever.
// The default is no such limit.
func WithMaxHold(d time.Duration) Option { return func(l *Locker) { l.maxHold = d } }

// New returns a Locker that keeps its locks in rdb. It sends nothing.
func New(rdb redis.UniversalClient, opts ...Option) *Locker {
	l := &Locker{rdb: rdb, minWait: 10 * time.Millisecond, maxWait: 500 * time.Millisecond}
	for _, opt := range opts {
		opt(l)
	}
	return l
}

// owner is who holds locks: whatever runs under one WithOwner. Its handles on one key share a lease.
type owner struct {
	id func() (string, error)

	mu     sync.Mutex
	leases map[place]*lease
}

// place is where an owner holds a lock.
type place struct {
	locker *Locker
	key    string
}

type ownerKey struct{}

// WithOwner returns a ctx with a new owner, which is random. Locks acquired with this ctx, or with one that is derived from
// it, belong to that owner, and let it in again. Give the ctx to what is part of the same work, and to nothing
// else: a goroutine that has it is inside whenever the others are.
func WithOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, newOwner())
}

func newOwner() *owner {
	return &owner{id: sync.OnceValues(newToken), leases: map[place]*lease{}}
}

// ownerOf returns the owner that ctx carries, or else a new one: then the lock is an ordinary lock.
func ownerOf(ctx context.Context) *owner {
	if o, ok := ctx.Value(ownerKey{}).(*owner); ok {
		return o
	}
	return newOwner()
}

// Lock is one acquisition. Its methods are safe for concurrent use.
type Lock struct {
	locker     *Locker
	key, token string
	owner      *owner
	lease      *lease // shared with the owner's other acquisitions of the key

	ctx context.Context // ends when the lease does, or with this handle
	end func()

	turn     chan struct{} // one release at a time, and what it guards:
	released bool          // a definite answer to an Unlock has come
	resent   bool          // an Unlock went out whose reply never came
	answer   error
	told     atomic.Bool // a caller has got the answer
}

// lease is how long a Lock may count on its key: what the renewer keeps alive, and what ends when it can't.
type lease struct {
	locker *Locker
	key    string
	hold   string // the token of the acquisition that created the key

	ctx     context.Context // ends when the lease does
	end     context.CancelCauseFunc
	kept    chan struct{}  // closed when the renewer has ended
	extends chan extension // Extends on their way to the renewer

	holdEnd time.Time // the lease is not renewed beyond this

	mu      sync.Mutex               // guards all below
	ttls    map[string]time.Duration // what each token asked for; the lease lasts as long as the longest
	late    time.Duration            // the shortest ttl of a request that may still reach the server
	until   time.Time                // the key can't expire before this
	expiry  *time.Timer              // ends ctx at until, even while a renewal hangs
	trouble error                    // why the last renewal failed
}

// extension is one call of Extend.
type extension struct {
	ctx   context.Context
	token string
	ttl   time.Duration
	done  chan error
}

// TryLock makes one attempt to take the lock for ttl. It returns ErrNotAcquired if somebody else holds it.
func (l *Locker) TryLock(ctx context.Context, key string, ttl time.Duration) (*Lock, error) {
	if err := l.check(ctx, key, ttl); err != nil {
		return nil, err
	}
	k, _, err := l.acquire(ctx, key, ttl)
	return k, err
}

// Lock takes the lock for ttl and waits for it until ctx is done. An error that ends the waiting matches
// ErrNotAcquired and the context's own error. A Redis error ends it at once. The ttl starts when the lock is
// acquired, not when the waiting starts.
func (l *Locker) Lock(ctx context.Context, key string, ttl time.Duration) (*Lock, error) {
	if err := l.check(ctx, key, ttl); err != nil {
		return nil, err
	}
	var contended error // remembered, because the deadline may fall inside a later attempt
	for attempt := 0; ; attempt++ {
		k, remaining, err := l.acquire(ctx, key, ttl)
		if errors.Is(err, ErrNotAcquired) {
			contended = err
			if err = l.wait(ctx, attempt, remaining); err == nil {
				continue
			}
		}
		if err != nil && contended != nil && ended(ctx) != nil {
			err = fmt.Errorf("%w: %w", contended, err)
		}
		return k, err
	}
}

// acquire makes one attempt. If the lock is taken, it also says how long the key has left, or 0 if unknown.
func (l *Locker) acquire(ctx context.Context, key string, ttl time.Duration) (*Lock, time.Duration, error) {
	o := ownerOf(ctx)
	id, err := o.id()
	if err != nil {
		return nil, 0, err
	}
	token, err := newToken()
	if err != nil {
		return nil, 0, err
	}
	k := &Lock{locker: l, key: key, token: token, owner: o, lease: &lease{}, turn: make(chan struct{}, 1)}
	sent := time.Now() // the lease is counted from here: the server can't have started any earlier
	cmd := &once{Cmd: redis.NewCmd(ctx, "EVAL", acquireScript, 1, redisKey(key), token, ttl.Milliseconds(), id)}
	finished, err := l.send(ctx, l.timeout(ttl), cmd)
	if err == nil {
		if remaining, taken := cmd.Val().(int64); taken {
			// PTTL rounds down, and answers -1 for a key without a TTL: then nobody knows how long it will stay.
			return nil, time.Duration(remaining+1) * time.Millisecond, ErrNotAcquired
		}
		hold, _ := cmd.Val().([]any)[1].(string)
		err = k.enter(ctx, hold, sent, ttl)
	}
	if err != nil {
		// The request may have been executed, or may be still on its way. Left alone, the key would block
		// everybody for a TTL, so take it back. A copy that arrives after this stays: the error says so.
		go k.abandon(finished)
		return nil, 0, fmt.Errorf("lock %q may stay taken for up to %v: %w", key, ttl, err)
	}
	return k, 0, nil
}

// abandon takes back what a failed attempt may have left, as soon as its request is no longer in flight. The caller does
// not wait for that: with a server that hangs it takes as long as go-redis does.
func (k *Lock) abandon(finished <-chan struct{}) {
	<-finished
	_ = k.free(context.Background())
}

// enter joins the lease that the owner has on the key, or begins one. The caller's ctx bounded the waiting; the handle takes
// only its values.
func (k *Lock) enter(ctx context.Context, hold string, sent time.Time, ttl time.Duration) error {
	o, at := k.owner, place{k.locker, k.key}
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.leases[at]
	if h == nil || !h.join(hold, k.token, sent, ttl) {
		h = &lease{locker: k.locker, key: k.key, hold: hold, late: forever, ttls: map[string]time.Duration{k.token: ttl}}
		if err := h.begin(sent, ttl); err != nil {
			return err
		}
		o.leases[at] = h
	}
	k.lease = h
	ctx, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(h.ctx, func() { end(context.Cause(h.ctx)) })
	k.ctx, k.end = ctx, func() { stop(); end(nil) }
	return nil
}

// leave takes the handle out of its lease. The last one ends the lease, and waits for the renewer: a renewal that came
// after the release would find nothing, or hide what the release finds.
func (k *Lock) leave() {
	k.end()
	o, h, at := k.owner, k.lease, place{k.locker, k.key}
	if !h.part(k.token) {
		return
	}
	<-h.kept
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.leases[at] == h {
		delete(o.leases, at)
	}
}

// begin starts the lease: its deadline, its context, its renewer.
func (h *lease) begin(sent time.Time, ttl time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holdEnd = sent.Add(forever)
	if h.locker.maxHold > 0 {
		h.holdEnd = sent.Add(h.locker.maxHold)
	}
	h.until = h.deadline(sent, ttl)
	if !time.Now().Before(h.until) {
		return errors.New("the answer came after the lease")
	}
	h.ctx, h.end = context.WithCancelCause(context.Background())
	h.kept, h.extends = make(chan struct{}), make(chan extension)
	h.expiry = time.AfterFunc(time.Until(h.until), h.expire)
	go h.keep()
	return nil
}

// join lets one more token count on the lease, unless that has ended. It has ended too if the key is of another hold: then it
// was gone in between, and whoever counts on the lease has to know.
func (h *lease) join(hold, token string, sent time.Time, ttl time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold != hold {
		_ = h.lose(ErrExpired)
	}
	if h.ctx.Err() != nil {
		return false
	}
	h.ttls[token] = ttl
	h.lasts(later(h.until, h.deadline(sent, min(ttl, h.holdEnd.Sub(sent)))))
	return true
}

// part removes a token. It reports whether that was the last, which ends the lease.
func (h *lease) part(token string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ttls, token)
	if len(h.ttls) > 0 {
		return false
	}
	h.end(nil)
	h.expiry.Stop()
	return true
}

// deadline says until when a request that was sent at sent, and succeeded, keeps the lease. The margin is for two clocks
// that don't run equally fast, and for the time it takes to stop working.
func (h *lease) deadline(sent time.Time, ttl time.Duration) time.Time {
	ttl = min(ttl, h.late).Truncate(time.Millisecond)
	return sent.Add(ttl - margin(ttl))
}

// keep renews the lease until it ends. It alone sends, Extends too, so that the server sees all requests in our order.
func (h *lease) keep() {
	defer close(h.kept)
	next := time.Now().Add(h.pause())
	for {
		var err error
		select {
		case <-time.After(time.Until(next)):
			err = h.extend(h.ctx, "", 0)
		case e := <-h.extends:
			err = h.extend(e.ctx, e.token, e.ttl)
			e.done <- err
		case <-h.ctx.Done():
			return
		}
		pause := h.pause()
		if err != nil {
			pause /= 10 // an error is not a loss: the lease runs on, so it tries again, soon
		}
		now := time.Now()
		if again := now.Add(pause); err == nil || !next.After(now) || again.Before(next) {
			next = again
		}
	}
}

// pause is the time between renewals.
func (h *lease) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.locker.interval(min(h.longest(), h.late))
}

// longest is the longest ttl that a token has asked for.
func (h *lease) longest() (ttl time.Duration) {
	for _, asked := range h.ttls {
		ttl = max(ttl, asked)
	}
	return ttl
}

// Extend makes the lease last for ttl from now, which may be shorter than before, and later renewals use the same ttl: as
// far as this handle is concerned, for the lease lasts as long as the longest that one of its handles has asked for. It
// returns ErrNotHeld if the lease is lost, and a Redis error if the outcome is unknown. It never
// leaves a lease that counts as longer than it is: a shorter ttl counts at once, a longer one when it has succeeded.
func (k *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	if k == nil || k.locker == nil {
		return ErrNotHeld
	}
	if err := k.locker.check(ctx, k.key, ttl); err != nil {
		return err
	}
	e := extension{ctx, k.token, ttl, make(chan error, 1)}
	select {
	case k.lease.extends <- e:
		return <-e.done
	case <-k.ctx.Done():
		return fmt.Errorf("extend %q: %w", k.key, ErrNotHeld)
	case <-ctx.Done():
		return fmt.Errorf("extend %q: %w", k.key, ctx.Err())
	}
}

// extend sends one compare-and-PEXPIRE, for a token that wants another ttl, or for all as they are. It gives up when the
// lease ends: an Unlock must not wait for it.
func (h *lease) extend(ctx context.Context, token string, wanted time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	sent := time.Now()
	h.mu.Lock()
	had, held := h.ttls[token]
	if h.ctx.Err() != nil || token != "" && !held {
		h.mu.Unlock()
		return fmt.Errorf("extend %q: %w", h.key, ErrNotHeld)
	}
	if held {
		h.ttls[token] = min(had, wanted) // a longer one counts once it has succeeded
	}
	ttl := min(max(h.longest(), wanted), h.holdEnd.Sub(sent)) // the key ends with the hold
	h.lasts(earlier(h.until, h.deadline(sent, ttl)))          // a shorter lease is shorter now, whatever comes back
	cmd := h.request(ctx, ttl)
	h.mu.Unlock()
	_, err := h.locker.send(ctx, h.locker.timeout(ttl), cmd)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil && !answered(err) {
		h.late = min(h.late, ttl) // it may reach the server yet, even after a later one
	}
	switch h.trouble = err; {
	case h.ctx.Err() != nil:
		return fmt.Errorf("extend %q: %w", h.key, ErrNotHeld) // its end came first, and the holder knows
	case err != nil:
		return fmt.Errorf("extend %q: %w", h.key, err)
	}
	switch done, _ := cmd.Int(); done {
	case 1:
		if _, still := h.ttls[token]; still {
			h.ttls[token] = wanted
		}
		h.lasts(later(h.until, h.deadline(sent, ttl))) // another acquisition may have made it longer meanwhile
		return nil
	case 0:
		return h.lose(ErrExpired)
	default:
		return h.lose(ErrStolen)
	}
}

// request keeps the key for all tokens of the lease.
func (h *lease) request(ctx context.Context, ttl time.Duration) *once {
	args := []any{"EVAL", extendScript, 1, redisKey(h.key), ttl.Milliseconds()}
	for _, token := range slices.Sorted(maps.Keys(h.ttls)) {
		args = append(args, token)
	}
	return &once{Cmd: redis.NewCmd(ctx, args...)}
}

// lasts sets the deadline.
func (h *lease) lasts(until time.Time) {
	h.until = until
	h.expiry.Reset(time.Until(until))
}

// expire ends the lease at its deadline. A timer that fires although the deadline has moved finds that out here.
func (h *lease) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case time.Now().Before(h.until):
	case h.until.Add(margin(h.locker.maxHold)).After(h.holdEnd):
		_ = h.lose(fmt.Errorf("held for the longest time allowed, %v", h.locker.maxHold))
	case h.trouble == nil:
		_ = h.lose(errors.New("not renewed in time, though no request has failed: this process may have stood still"))
	default:
		_ = h.lose(fmt.Errorf("not renewed in time: %v", h.trouble))
	}
}

// lose tells the holder. It is final: a renewal that succeeds after this changes nothing, and the lease lasts no longer.
func (h *lease) lose(why error) error {
	h.until = earlier(h.until, time.Now())
	h.end(fmt.Errorf("%w: %w", ErrLockLost, why))
	h.expiry.Stop()
	return fmt.Errorf("extend %q: %w", h.key, why)
}

// Unlock frees the lock, after it has ended the renewal. It returns nil if this acquisition owned the key until now,
// ErrExpired or ErrStolen if it no longer did, and a Redis or context error if the outcome is unknown: then it may be
// called again. It works on a ctx that is done, for "defer k.Unlock(ctx)", within two seconds of its own; if ctx ends
// meanwhile, Unlock returns soon and the request goes on: the next call says how it ended. Once a call has returned nil
// or ErrNotHeld, each further one, like a call on a Lock that is nil or zero, returns ErrNotHeld and sends nothing.
func (k *Lock) Unlock(ctx context.Context) error {
	if k == nil || k.locker == nil {
		return ErrNotHeld
	}
	k.leave()
	done := make(chan error, 1)
	go func() { done <- k.free(ctx) }()
	var given <-chan struct{}
	if ctx.Err() == nil { // a ctx that has ended before says nothing about how long this may take
		given = ctx.Done()
	}
	select {
	case err := <-done:
		return k.tell(err)
	case <-given:
	}
	select {
	case err := <-done:
		return k.tell(err)
	case <-time.After(unlockGrace): // the answer is worth a moment's wait
		return fmt.Errorf("unlock %q: outcome unknown: %w", k.key, ctx.Err())
	}
}

// free releases the key, whatever becomes of ctx.
func (k *Lock) free(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockBudget)
	defer cancel()
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return fmt.Errorf("unlock %q: %w", k.key, ctx.Err())
	}
	if k.released {
		return k.answer
	}
	err := k.release(ctx)
	k.released, k.answer = definite(err), err
	return err
}

// tell gives a definite answer to one caller: the first that is still there when it comes. Others are too late.
func (k *Lock) tell(err error) error {
	if definite(err) && k.told.Swap(true) {
		return ErrNotHeld
	}
	return err
}

func definite(err error) bool { return err == nil || errors.Is(err, ErrNotHeld) }

// release sends one compare-and-delete.
func (k *Lock) release(ctx context.Context) error {
	cmd := &once{Cmd: redis.NewCmd(ctx, "EVAL", releaseScript, 1, redisKey(k.key), k.token)}
	if _, err := k.locker.send(ctx, unlockBudget, cmd); err != nil {
		k.resent = k.resent || !answered(err)
		return fmt.Errorf("unlock %q: %w", k.key, err)
	}
	deleted, _ := cmd.Int()
	switch {
	case deleted == 1:
		return nil
	case (k.resent || cmd.sends > 1) && time.Now().Before(k.Until()):
		return nil // the key could not expire yet: it was our own first copy that deleted it
	case deleted == 0:
		return ErrExpired
	default:
		return ErrStolen
	}
}

// Key returns the name of the resource, as the caller gave it.
func (k *Lock) Key() string { return k.key }

// Token returns the random value that marks the key as this acquisition's.
func (k *Lock) Token() string { return k.token }

// Until returns when the lease ends, by this process's clock, unless it is renewed before. The key lives longer than that.
func (k *Lock) Until() time.Time {
	k.lease.mu.Lock()
	defer k.lease.mu.Unlock()
	return k.lease.until
}

// Context ends when the lease does: with a cause that matches ErrLockLost if the lease is lost or can't be guaranteed any
// longer, and with context.Canceled after Unlock. Work under the lock should run under this context. It has
// the values of the ctx with which the lock was acquired, and neither its deadline nor its cancellation.
func (k *Lock) Context() context.Context { return k.ctx }

// Do runs fn while it holds the lock, and unlocks when fn returns, panics or calls runtime.Goexit. The context of fn
// has the values of ctx, and ends with ctx or with the lease, for the cause of whichever is first. Do returns fn's error
// and Unlock's, joined, and ErrLockLost if the lease was lost while fn ran.
func (l *Locker) Do(ctx context.Context, key string, ttl time.Duration, fn func(context.Context) error) (err error) {
	k, err := l.Lock(ctx, key, ttl)
	if err != nil {
		return err
	}
	work, end := context.WithCancelCause(ctx)
	defer context.AfterFunc(k.Context(), func() { end(context.Cause(k.Context())) })()
	defer func() {
		var lost error
		if k.Context().Err() != nil {
			lost = context.Cause(k.Context())
		}
		err = errors.Join(err, lost, k.Unlock(ctx))
		end(nil)
	}()
	return fn(work)
}

// once is a command that go-redis sends at most once: its own resending would eat the time that a renewal has, and
// we could not tell our own first copy from a lease that had ended. We count instead.
type once struct {
	*redis.Cmd
	sends int
}

// NoRetry switches go-redis' own resending off.
func (*once) NoRetry() bool { return true }

// mostSends is how often a command is sent while its connection breaks, as often as go-redis does by default.
const mostSends = 4

// send sends one command, and again if the connection breaks. It returns when ctx ends or the timeout passes, even if
// go-redis goes on: by default that stops for neither once a command is in flight. finished is closed when it has.
func (l *Locker) send(ctx context.Context, timeout time.Duration, cmd *once) (finished chan struct{}, err error) {
	request, cancel := context.WithTimeout(ctx, timeout)
	finished = make(chan struct{})
	go func() {
		defer cancel()
		defer close(finished)
		for {
			cmd.sends++
			err := l.rdb.Process(request, cmd)
			if err == nil || answered(err) || cmd.sends == mostSends || ended(request) != nil {
				return
			}
		}
	}()
	select {
	case <-finished:
	case <-request.Done():
	}
	select {
	case <-finished: // an answer counts, even if it came at the last moment
		err = cmd.Err()
	default:
		err = request.Err()
	}
	if ended(ctx) == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", timeout) // the caller's deadline is another matter
	}
	if err != nil {
		err = because(ctx, err)
	}
	return finished, err
}

// answered reports whether err is the server's answer. Otherwise the request may or may not have been executed.
func answered(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// because adds the context's error to err, which is often just "i/o timeout".
func because(ctx context.Context, err error) error {
	why := ended(ctx)
	if why == nil || errors.Is(err, why) {
		return err
	}
	return fmt.Errorf("%w: %w", why, err)
}

// ended is ctx.Err(), except that a socket may notice the deadline a moment before ctx does.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// redisKey is where the lock of a resource is kept.
func redisKey(key string) string { return "lock:" + key }

// newToken returns 128 random bits: no two acquisitions share a token.
func newToken() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(rand.Reader, b[:]); err != nil { // rand.Read would end the process instead
		return "", fmt.Errorf("lock token: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// interval is the time between renewals of a lease.
func (l *Locker) interval(ttl time.Duration) time.Duration {
	if l.renewEvery != 0 {
		return l.renewEvery
	}
	return ttl / 3
}

// timeout is how long a request may take.
func (l *Locker) timeout(ttl time.Duration) time.Duration {
	if l.requestTimeout != 0 {
		return l.requestTimeout
	}
	return min(time.Second, ttl/4)
}

// forever is longer than any lease.
const forever = 100 * 365 * 24 * time.Hour

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// margin is how long before the key the lease ends: one percent for clocks that drift, and two milliseconds.
func margin(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// check refuses what cannot work, before anything is sent.
func (l *Locker) check(ctx context.Context, key string, ttl time.Duration) error {
	if l == nil || l.rdb == nil {
		return errors.New("lock: no Redis client")
	}
	if v := reflect.ValueOf(l.rdb); v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.New("lock: the Redis client is a nil pointer")
	}
	switch {
	case key == "":
		return errors.New("lock: the key is empty")
	case ttl < time.Millisecond:
		return fmt.Errorf("lock %q: a ttl of %v is shorter than a millisecond", key, ttl)
	case min(l.interval(ttl), l.timeout(ttl)) <= 0 || max(l.interval(ttl), l.timeout(ttl)) > ttl ||
		l.interval(ttl)+l.timeout(ttl)+margin(ttl) > ttl:
		return fmt.Errorf("lock %q: a ttl of %v is too short to renew it every %v with requests of up to %v: "+
			"both and a margin of %v have to fit into it", key, ttl, l.interval(ttl), l.timeout(ttl), margin(ttl))
	case l.maxHold < 0 || l.maxHold > 0 && l.maxHold < ttl:
		return fmt.Errorf("lock %q: a ttl of %v is longer than the longest hold of %v", key, ttl, l.maxHold)
	case l.minWait <= 0 || l.maxWait < l.minWait:
		return fmt.Errorf("lock: a back-off from %v to %v does not work", l.minWait, l.maxWait)
	}
	return ctx.Err()
}

// wait pauses before the next attempt. The pause doubles up to the cap and is random, so that many waiters
// spread out, and it ends soon after the key can expire.
func (l *Locker) wait(ctx context.Context, attempt int, remaining time.Duration) error {
	pause := l.maxWait
	if l.minWait <= pause>>attempt { // a product that is too large would be negative
		pause = l.minWait << attempt
	}
	pause = pause/2 + mathrand.N(pause/2+1)
	if remaining > 0 {
		pause = min(pause, remaining+mathrand.N(l.minWait))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ended(ctx) // also if both have come
}
