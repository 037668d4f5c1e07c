// Package failover is chapter 7: Redlock with a fencing token, so that a resource can refuse a holder that is too late.
//
// No lock can stop a process that was paused and goes on: it has checked its lease before the pause. The resource can, if each
// acquisition has a number that is larger than those before it, and the resource remembers the largest that it has seen.
// Redis has no such number for several independent nodes, so the lock makes one, in two rounds:
//
//  1. Each node counts its grants, in the script that grants. The token is the largest count among the nodes that have granted.
//  2. These nodes, and no others, are told the token. A node takes it as its count only while it still holds this very
//     acquisition, and only if its count has not moved past the token. The lock is held when a majority of all nodes has
//     taken it.
//
// Why the token of a later acquisition is larger: let A's second round have been taken by a majority, and then B's. The two
// majorities share a node, and there A's grant and B's are apart: the node holds one acquisition at a time, and has taken each
// token while it still held the one it belongs to. If A came first there, the node's count was at least A's
// token when it granted B, so B's count there, and with it B's token, is larger. If B came first, A's token is larger
// in the same way. So no two acquisitions ever have the same token, and one that completes before the other begins has the
// smaller. Both conditions of the second round are needed: without the first, a node that has expired A and granted B
// would vouch for both; without the second, a grant of A that is delivered twice, late, would let it.
//
// Guaranteed, while no node loses its data, the counts above all, and their clocks run about equally fast:
//   - Two acquisitions of one key never have the same Fence, and one that begins after another is complete has a larger one.
//     Renewal and Extend don't change it.
//   - All that chapter 6 guarantees.
//
// Not guaranteed:
//   - The token protects a resource that compares it, such as Guard or one SQL statement, and nothing else.
//   - If a node ends a key too early, an acquisition may complete after a later one has come and gone, with a smaller token.
//     The guard refuses it.
//   - Nodes that come back without their counts can break it: see TestCounterLost. Its comment says how to recover.
//   - A nested Lock of the same key waits for itself.
package failover

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
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

// Chapter 2's SET answered "taken" when go-redis resent it after a lost reply: the key was there, put
// there by the first copy. No other caller can know our token, so finding it means that we hold the lock.
// Chapter 6's grant carried no number. The count has no TTL: one that starts again makes new tokens smaller than old ones.
const acquireScript = `-- acquire: {how many grants there have been}, or how many milliseconds the other owner has left
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return redis.call('PTTL', KEYS[1]) end
if owner then return {tonumber(redis.call('GET', KEYS[2]))} end
local count = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {count}`

// The largest count becomes everybody's, if nothing has happened in between: the node still holds this acquisition, and its
// count has not moved past the token.
const settleScript = `-- settle: 1 done, 0 the key is gone or another's, -1 the count has moved past the token
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if tonumber(redis.call('GET', KEYS[2]) or 0) > tonumber(ARGV[2]) then return -1 end
redis.call('SET', KEYS[2], ARGV[2])
return 1`

// Chapter 2's gap between GET and DEL is closed: Redis runs no other command while a script runs.
const releaseScript = `-- release: 1 deleted, 0 the key is gone, -1 it belongs to somebody else
local owner = redis.call('GET', KEYS[1])
if not owner then return 0 end
if owner ~= ARGV[1] then return -1 end
return redis.call('DEL', KEYS[1])`

// Compare and PEXPIRE in one step, for the reason that made the release a script. PEXPIRE alone would prolong
// another's lease, a SET would revive a key that is gone, and a TTL of 0 or less would delete it and answer 1.
const extendScript = `-- extend: 1 done, 0 the key is gone, -1 it belongs to somebody else
local owner = redis.call('GET', KEYS[1])
if not owner then return 0 end
if owner ~= ARGV[1] then return -1 end
if tonumber(ARGV[2]) < 1 then return redis.error_reply('ERR a lease must be at least a millisecond') end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`

// unlockBudget bounds one Unlock, and the clean-up after a failed attempt.
const unlockBudget = 2 * time.Second

// unlockGrace is how long an Unlock whose ctx ends still waits for its answer.
const unlockGrace = 50 * time.Millisecond

// Locker makes locks on a majority of its nodes. It is configuration only and safe for concurrent use.
type Locker struct {
	nodes            []redis.UniversalClient
	quorum           int // more than half of all nodes, whether they can be reached or not
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

// WithRequestTimeout bounds each request to a node. The default is 50 ms, or a twentieth of the ttl if that is shorter,
// but not less than 5 ms.
func WithRequestTimeout(d time.Duration) Option { return func(l *Locker) { l.requestTimeout = d } }

// WithMaxHold ends every lease after d, however long its holder works: a holder that hangs must not hold for ever.
// The default is no such limit.
func WithMaxHold(d time.Duration) Option { return func(l *Locker) { l.maxHold = d } }

// New returns a Locker that keeps its locks on a majority of the nodes, which are independent servers: no replicas of each
// other, no nodes of one cluster. It sends nothing. It refuses nodes that are nil or that it knows to be one server.
// An odd number is best: one node more than that makes a majority larger and survives no failure more.
func New(nodes []redis.UniversalClient, opts ...Option) (*Locker, error) {
	l := &Locker{
		nodes: slices.Clone(nodes), quorum: len(nodes)/2 + 1,
		minWait: 10 * time.Millisecond, maxWait: 500 * time.Millisecond,
	}
	for _, opt := range opts {
		opt(l)
	}
	if len(nodes) == 0 {
		return nil, errors.New("lock: no Redis nodes")
	}
	seen := map[string]int{}
	for i, node := range nodes {
		if v := reflect.ValueOf(node); node == nil || v.Kind() == reflect.Pointer && v.IsNil() {
			return nil, fmt.Errorf("lock: node %d is nil", i+1)
		}
		at := server(node)
		if first, twice := seen[at]; twice {
			return nil, fmt.Errorf("lock: nodes %d and %d are the same server, %s: it would vote twice", first, i+1, at)
		}
		seen[at] = i + 1
	}
	if len(nodes)%2 == 0 {
		slog.Warn("lock: an even number of nodes survives no more failures than one node less", "nodes", len(nodes))
	}
	return l, nil
}

// server names the server of a client, so that two spellings of one address are equal. Two host names of one server are
// not seen through: that would take a request.
func server(node redis.UniversalClient) string {
	client, ok := node.(*redis.Client)
	if !ok {
		return fmt.Sprintf("%p", node)
	}
	o := client.Options()
	host, port, err := net.SplitHostPort(o.Addr)
	switch {
	case o.Network == "unix":
		return o.Addr
	case err != nil: // a client that asks Sentinels for its server has no address
		return fmt.Sprintf("%p", node)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip := net.ParseIP(host); host == "" || host == "localhost" || ip.Equal(net.IPv6loopback) {
		host = "127.0.0.1"
	} else if ip != nil {
		host = ip.String()
	}
	return net.JoinHostPort(host, port)
}

// Lock is one acquisition. Its methods are safe for concurrent use.
type Lock struct {
	locker     *Locker
	key, token string
	fence      int64
	lease      *lease

	turn     chan struct{} // one release at a time, and what it guards:
	released bool          // a definite answer to an Unlock has come
	answer   error
	told     atomic.Bool // a caller has got the answer
}

// lease is how long a Lock may count on its key: what the renewer keeps alive, and what ends when it can't.
type lease struct {
	locker     *Locker
	key, token string

	ctx     context.Context // ends when the lease does
	end     context.CancelCauseFunc
	kept    chan struct{}  // closed when the renewer has ended
	extends chan extension // Extends on their way to the renewer

	holdEnd time.Time // the lease is not renewed beyond this

	mu      sync.Mutex    // guards all below, and the votes
	votes   []*vote       // one for each node
	ttl     time.Duration // of the next renewal
	until   time.Time     // a majority of the keys can't expire before this
	expiry  *time.Timer   // ends ctx at until, even while a renewal hangs
	trouble error         // why the last renewal failed
}

// vote is what a lock has at one node.
type vote struct {
	node  redis.UniversalClient
	turn  chan struct{} // one request at a time, until go-redis is done with it: the node sees them in our order
	until time.Time     // the node's key can't expire before this; zero if the node has not granted it
	late  time.Duration // the shortest ttl of a request that may still reach the node
	left  time.Duration // how long the node's other holder has left, or 0
	lost  error         // the node's key is gone, or another's
	count int64         // of its grants, with ours; 0 if it has not granted the lock in time

	clear         bool // nothing of ours has ever been there
	resent, freed bool // a release went out whose reply never came; one has succeeded
}

// extension is one call of Extend.
type extension struct {
	ctx  context.Context
	ttl  time.Duration
	done chan error
}

// answer is what a node has said to a request: nil is yes.
type answer struct {
	node int
	err  error
}

// TryLock makes one attempt to take the lock for ttl. It returns ErrNotAcquired if somebody else holds it.
func (l *Locker) TryLock(ctx context.Context, key string, ttl time.Duration) (*Lock, error) {
	if err := l.check(ctx, key, ttl); err != nil {
		return nil, err
	}
	k, _, err := l.acquire(ctx, key, ttl)
	return k, err
}

// Lock takes the lock for ttl and waits for it until ctx is done, also while nodes are too slow to answer. An error that ends
// the waiting matches the context's own error, and ErrNotAcquired if the lock was taken. A Redis error
// ends it at once. The ttl starts when the lock is acquired, not when the waiting starts.
func (l *Locker) Lock(ctx context.Context, key string, ttl time.Duration) (*Lock, error) {
	if err := l.check(ctx, key, ttl); err != nil {
		return nil, err
	}
	var contended error // remembered, because the deadline may fall inside a later attempt
	for attempt := 0; ; attempt++ {
		k, remaining, err := l.acquire(ctx, key, ttl)
		if errors.Is(err, ErrNotAcquired) || errors.Is(err, errNoAnswer) {
			if contended == nil || errors.Is(err, ErrNotAcquired) {
				contended = err
			}
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

// acquire makes one attempt on all nodes. If the lock is taken, it also says how long the keys that are in the way have left,
// or 0 if unknown.
func (l *Locker) acquire(ctx context.Context, key string, ttl time.Duration) (*Lock, time.Duration, error) {
	token, err := newToken()
	if err != nil {
		return nil, 0, err
	}
	k := &Lock{locker: l, key: key, token: token, turn: make(chan struct{}, 1)}
	h := &lease{locker: l, key: key, token: token, ttl: ttl}
	for _, node := range l.nodes {
		h.votes = append(h.votes, &vote{node: node, turn: make(chan struct{}, 1), late: forever})
	}
	k.lease = h
	sent := time.Now() // the lease is counted from here, in each attempt: no node can have started it any earlier
	no := h.decide(ctx, l.timeout(ttl), h.ask(ctx, request{
		words:   []any{"EVAL", acquireScript, 2, redisKey(key), countKey(key), token, ttl.Milliseconds()},
		timeout: l.timeout(ttl),
		read:    func(v *vote, cmd *once, err error) error { return v.granted(cmd, err, h.deadline(sent, ttl)) },
	}))
	if no == nil {
		k.fence, no = h.settle(ctx, l.timeout(ttl))
	}
	if no == nil {
		if err = h.begin(ctx, sent); err == nil {
			return k, 0, nil
		}
		no = []error{err}
	}
	k.abandon(ctx, l.timeout(ttl))
	if refused := count(no, errTaken); refused > 0 && len(no)-refused <= len(l.nodes)-l.quorum {
		return nil, h.hint(), fmt.Errorf("%w: %w", ErrNotAcquired, reasons(no))
	}
	// Requests may be still on their way. A copy that arrives after the clean-up stays: the error says so.
	return nil, 0, fmt.Errorf("lock %q may stay taken for up to %v: %w", key, ttl, because(ctx, reasons(no)))
}

// granted reads a node's answer to an acquisition.
func (v *vote) granted(cmd *once, err error, until time.Time) error {
	if err != nil {
		return err
	}
	if remaining, taken := cmd.Val().(int64); taken {
		// PTTL rounds down, and answers -1 for a key without a TTL: then nobody knows how long it will stay.
		v.left = time.Duration(remaining+1) * time.Millisecond
		v.clear = cmd.sends == 1
		return errTaken
	}
	counts, _ := cmd.Val().([]any)
	if len(counts) != 1 {
		return errors.New("it does not say how many grants there have been")
	}
	v.count, _ = counts[0].(int64)
	v.until = until
	return nil
}

// settle is the second round. It makes the largest count among the nodes that have granted the lock the token, and tells them,
// and nobody else: a grant that comes later has no part in the token, so it must not vouch for it.
func (h *lease) settle(ctx context.Context, timeout time.Duration) (fence int64, no []error) {
	h.mu.Lock()
	granted := map[*vote]bool{}
	for _, v := range h.votes {
		if v.count > 0 {
			granted[v] = true
			fence = max(fence, v.count)
		}
	}
	h.mu.Unlock()
	return fence, h.decide(ctx, timeout, h.ask(ctx, request{
		words:   []any{"EVAL", settleScript, 2, redisKey(h.key), countKey(h.key), h.token, fence},
		timeout: timeout,
		skip:    func(v *vote) bool { return !granted[v] },
		read: func(v *vote, cmd *once, err error) error {
			switch done, _ := cmd.Int(); {
			case !granted[v]:
				return fmt.Errorf("%w in time", errNoAnswer)
			case err != nil || done == 1:
				return err
			}
			return errTaken
		},
	}))
}

// hint says how long it takes until a majority may be free, or 0 if nobody knows.
func (h *lease) hint() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	missing, left := h.locker.quorum, []time.Duration{}
	for _, v := range h.votes {
		switch {
		case !v.until.IsZero():
			missing--
		case v.left > 0:
			left = append(left, v.left)
		}
	}
	if missing < 1 || missing > len(left) {
		return 0
	}
	slices.Sort(left)
	return left[missing-1]
}

// abandon takes back what a failed attempt may have left: on every node, as soon as its request is no longer in flight
// there. It waits, not long, for those that have said yes: the next attempt must not be refused by its own leftovers.
func (k *Lock) abandon(ctx context.Context, timeout time.Duration) {
	k.lease.mu.Lock()
	granted := 0
	for _, v := range k.lease.votes {
		if !v.until.IsZero() {
			granted++
		}
	}
	k.lease.mu.Unlock()
	answers, late := k.askRelease(ctx), time.After(timeout)
	for granted > 0 {
		select {
		case a := <-answers:
			if a.err == nil {
				granted--
			}
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

// request is what a lock asks of its nodes.
type request struct {
	words   []any
	timeout time.Duration
	queue   bool                                      // wait for the request before this one, if the node is still busy with that
	skip    func(v *vote) bool                        // don't ask this node
	read    func(v *vote, cmd *once, err error) error // what a node's answer means: nil is a yes
}

// ask sends a request to every node at once. Each answer goes through read and then into the channel, one for each node. An
// answer that comes after the decision is read too. A renewal does not queue: a node that hangs must not pile them up.
func (h *lease) ask(ctx context.Context, r request) <-chan answer {
	answers := make(chan answer, len(h.votes))
	for i, v := range h.votes {
		if !r.queue {
			select {
			case v.turn <- struct{}{}: // now, and not on the goroutine, which a clean-up could overtake
			default:
				answers <- answer{i, errors.New("it has not answered the request before")}
				continue
			}
		}
		go func() { answers <- answer{i, h.askNode(ctx, r, v)} }()
	}
	return answers
}

func (h *lease) askNode(ctx context.Context, r request, v *vote) (err error) {
	if r.queue {
		v.turn <- struct{}{}
	}
	defer func() { <-v.turn }()
	cmd := &once{Cmd: redis.NewCmd(ctx, r.words...)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.skip == nil || !r.skip(v) {
		h.mu.Unlock()
		err = send(ctx, r.timeout, v.node, cmd)
		h.mu.Lock()
	}
	return r.read(v, cmd, err)
}

// decide counts the answers until a majority has said yes, and returns nil, or until it can't any more, and returns the
// reasons. A node that has not answered in time has not said yes.
func (h *lease) decide(ctx context.Context, timeout time.Duration, answers <-chan answer) (no []error) {
	late := time.NewTimer(timeout)
	defer late.Stop()
	heard := make([]bool, len(h.votes))
	for yes := 0; yes < h.locker.quorum; {
		var missing error
		select {
		case a := <-answers:
			heard[a.node] = true
			if a.err == nil {
				yes++
			} else if no = append(no, reason(a.node, a.err)); len(no) > len(h.votes)-h.locker.quorum {
				return no
			}
			continue
		case <-late.C:
			missing = fmt.Errorf("%w within %v", errNoAnswer, timeout)
		case <-ctx.Done():
			missing = ctx.Err()
		}
		for node, known := range heard {
			if !known {
				no = append(no, reason(node, missing))
			}
		}
		return no
	}
	return nil
}

// reason is an error, and at which node.
func reason(node int, err error) error { return fmt.Errorf("node %d: %w", node+1, err) }

// begin starts the lease: its deadline, its context, its renewer. The caller's ctx bounded the waiting; the lease takes
// only its values.
func (h *lease) begin(ctx context.Context, sent time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holdEnd = sent.Add(forever)
	if h.locker.maxHold > 0 {
		h.holdEnd = sent.Add(h.locker.maxHold)
	}
	h.until = h.sure()
	if !time.Now().Before(h.until) {
		return errors.New("the answers came after the lease")
	}
	h.ctx, h.end = context.WithCancelCause(context.WithoutCancel(ctx))
	h.kept, h.extends = make(chan struct{}), make(chan extension)
	h.expiry = time.AfterFunc(time.Until(h.until), h.expire)
	go h.keep()
	return nil
}

// deadline says until when a request that was sent at sent, and succeeded, keeps a node's key. The margin is for two clocks
// that don't run equally fast, and for the time it takes to stop working.
func (h *lease) deadline(sent time.Time, ttl time.Duration) time.Time {
	ttl = ttl.Truncate(time.Millisecond)
	return sent.Add(ttl - margin(ttl))
}

// sure says until when a majority of the nodes is sure to have the key. This is the validity of the lease.
func (h *lease) sure() time.Time {
	var ends []time.Time
	for _, v := range h.votes {
		ends = append(ends, v.until)
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[h.locker.quorum-1]
}

// gone says why a majority can't have the key any more, and nil if it can.
func (h *lease) gone() error {
	expired, stolen := 0, 0
	for _, v := range h.votes {
		switch v.lost {
		case ErrExpired:
			expired++
		case ErrStolen:
			stolen++
		}
	}
	switch {
	case expired+stolen <= len(h.votes)-h.locker.quorum:
		return nil
	case stolen > expired:
		return ErrStolen
	default:
		return ErrExpired
	}
}

// keep renews the lease until it ends. It alone sends, Extends too, so that the server sees all requests in our order.
func (h *lease) keep() {
	defer close(h.kept)
	next := time.Now().Add(h.pause())
	for {
		var err error
		select {
		case <-time.After(time.Until(next)):
			err = h.extend(h.ctx, 0)
		case e := <-h.extends:
			err = h.extend(e.ctx, e.ttl)
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
	shortest := h.ttl
	for _, v := range h.votes {
		shortest = min(shortest, v.late)
	}
	return h.locker.interval(shortest)
}

// Extend makes the lease last for ttl from now, which may be shorter than before; later renewals use the same ttl. It
// returns ErrNotHeld if the lease is lost, and a Redis error if the outcome is unknown. It never
// leaves a lease that counts as longer than it is: a shorter ttl counts at once, a longer one when it has succeeded.
func (k *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	if k == nil || k.locker == nil {
		return ErrNotHeld
	}
	if err := k.locker.check(ctx, k.key, ttl); err != nil {
		return err
	}
	e := extension{ctx, ttl, make(chan error, 1)}
	select {
	case k.lease.extends <- e:
		return <-e.done
	case <-k.lease.ctx.Done():
		return fmt.Errorf("extend %q: %w", k.key, ErrNotHeld)
	case <-ctx.Done():
		return fmt.Errorf("extend %q: %w", k.key, ctx.Err())
	}
}

// extend sends one compare-and-PEXPIRE to all nodes, with the ttl of the last one if ttl is 0. It gives up when the lease ends: an Unlock
// must not wait for it.
func (h *lease) extend(ctx context.Context, ttl time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	sent := time.Now()
	h.mu.Lock()
	if h.ctx.Err() != nil {
		h.mu.Unlock()
		return fmt.Errorf("extend %q: %w", h.key, ErrNotHeld)
	}
	if ttl == 0 {
		ttl = h.ttl
	}
	wanted := ttl
	h.ttl = min(h.ttl, wanted)             // a longer one counts once it has succeeded
	ttl = min(wanted, h.holdEnd.Sub(sent)) // the key ends with the hold
	for _, v := range h.votes {
		v.until = earlier(v.until, h.deadline(sent, ttl)) // a shorter lease is shorter now, whatever comes back
	}
	h.lasts(h.sure())
	h.mu.Unlock()
	no := h.decide(ctx, h.locker.timeout(ttl), h.ask(h.ctx, request{
		words:   []any{"EVAL", extendScript, 1, redisKey(h.key), h.token, ttl.Milliseconds()},
		timeout: h.locker.timeout(ttl),
		read:    func(v *vote, cmd *once, err error) error { return h.extended(v, cmd, err, sent, ttl) },
	}))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble = reasons(no)
	lost := h.gone()
	switch {
	case h.ctx.Err() != nil:
		return fmt.Errorf("extend %q: %w", h.key, ErrNotHeld) // its end came first, and the holder knows
	case lost != nil:
		return h.lose(lost)
	case no != nil:
		return fmt.Errorf("extend %q: %w", h.key, because(ctx, h.trouble))
	}
	h.ttl = wanted
	return nil
}

// extended reads a node's answer to an extension, also one that comes late.
func (h *lease) extended(v *vote, cmd *once, err error, sent time.Time, ttl time.Duration) error {
	done, _ := cmd.Int()
	switch {
	case err != nil && !answered(err):
		v.late = min(v.late, ttl) // it may reach the node yet, even after a later one
		return err
	case err != nil:
		return err
	case done == 1:
		v.until = h.deadline(sent, min(ttl, v.late))
	case done == 0:
		v.until, v.lost = time.Time{}, ErrExpired
	default:
		v.until, v.lost = time.Time{}, ErrStolen
	}
	if h.ctx.Err() == nil {
		h.lasts(h.sure())
	}
	return v.lost
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
	lost := h.gone()
	switch {
	case time.Now().Before(h.until):
	case lost != nil:
		_ = h.lose(lost)
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
	k.lease.end(nil)
	k.lease.expiry.Stop()
	<-k.lease.kept // a renewal that came after the release would find nothing, or hide what the release finds
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

// release sends one compare-and-delete to all nodes, also to those that have not granted the lock: their grant may be late.
func (k *Lock) release(ctx context.Context) error {
	no := k.lease.decide(ctx, forever, k.askRelease(ctx)) // ctx bounds it
	switch {
	case no == nil:
		return nil
	case count(no, ErrNotHeld) <= len(k.lease.votes)-k.locker.quorum:
		return fmt.Errorf("unlock %q: %w", k.key, because(ctx, reasons(no)))
	case 2*count(no, ErrStolen) > len(no):
		return ErrStolen
	default:
		return ErrExpired
	}
}

// askRelease goes on when ctx has ended, and waits at each node for the request that is in flight there.
func (k *Lock) askRelease(ctx context.Context) <-chan answer {
	return k.lease.ask(context.WithoutCancel(ctx), request{
		words:   []any{"EVAL", releaseScript, 1, redisKey(k.key), k.token},
		timeout: unlockBudget,
		queue:   true,
		skip:    func(v *vote) bool { return v.clear },
		read:    (*vote).released,
	})
}

// released reads a node's answer to a release.
func (v *vote) released(cmd *once, err error) error {
	deleted, _ := cmd.Int()
	switch {
	case err != nil:
		v.resent = v.resent || !answered(err)
	case deleted == 1:
		v.freed = true
	case (v.resent || cmd.sends > 1) && time.Now().Before(v.until):
		v.freed = true // the key could not expire yet: it was our own first copy that deleted it
	case deleted == 0:
		err = ErrExpired
	default:
		err = ErrStolen
	}
	if v.freed {
		return nil
	}
	return err
}

// Key returns the name of the resource, as the caller gave it.
func (k *Lock) Key() string { return k.key }

// Token returns the random value that marks the key as this acquisition's.
func (k *Lock) Token() string { return k.token }

// Fence returns the fencing token: a number that is larger than that of every acquisition of this key before. Hand it to
// the resource with each write. Renewals don't change it.
func (k *Lock) Fence() int64 { return k.fence }

// Until returns when the lease ends, by this process's clock, unless it is renewed before. The key lives longer than that.
func (k *Lock) Until() time.Time {
	k.lease.mu.Lock()
	defer k.lease.mu.Unlock()
	return k.lease.until
}

// Context ends when the lease does: with a cause that matches ErrLockLost if the lease is lost or can't be guaranteed any
// longer, and with context.Canceled after Unlock. Work under the lock should run under this context. It has
// the values of the ctx with which the lock was acquired, and neither its deadline nor its cancellation.
func (k *Lock) Context() context.Context { return k.lease.ctx }

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

// send sends one command to one node, and again if the connection breaks. It returns when go-redis does, and by default
// go-redis stops neither for ctx nor for the timeout once a command is in flight: nobody must wait for it.
func send(ctx context.Context, timeout time.Duration, node redis.UniversalClient, cmd *once) error {
	request, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		cmd.sends++
		err := node.Process(request, cmd)
		if err == nil || answered(err) {
			return err
		}
		if cmd.sends == mostSends || ended(request) != nil {
			if ended(ctx) == nil && errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("%w within %v", errNoAnswer, timeout) // the caller's deadline is another matter
			}
			return err
		}
	}
}

// What a node may say, or not.
var (
	errTaken    = errors.New("taken")
	errNoAnswer = errors.New("no answer")
)

// count says how many errors are the target.
func count(all []error, target error) (n int) {
	for _, err := range all {
		if errors.Is(err, target) {
			n++
		}
	}
	return n
}

// reasons makes one error of all. That a node has answered "taken" or "not held" is told, but can't be matched: it is not the
// verdict of the majority.
func reasons(no []error) (all error) {
	for _, err := range no {
		if errors.Is(err, ErrNotHeld) {
			err = errors.New(err.Error())
		}
		if all == nil {
			all = err
		} else {
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
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

// countKey is where a node counts its grants. It falls into the cluster slot of the lock's key, whatever braces the name has:
// Redis hashes what stands between the first "{" and the next "}", if anything does, and else the whole key.
func countKey(key string) string {
	lock := redisKey(key)
	if tag(lock) != lock {
		return "fence:" + lock
	}
	if !strings.Contains(lock, "}") {
		return "fence:{" + lock + "}"
	}
	for i := 0; ; i++ { // a tag can't contain "}", so look for another one with the same slot
		if t := strconv.Itoa(i); slot(t) == slot(lock) {
			return "fence:{" + t + "}" + lock
		}
	}
}

// tag returns the part of a key that Redis Cluster hashes.
func tag(key string) string {
	if _, rest, found := strings.Cut(key, "{"); found {
		if t, _, closed := strings.Cut(rest, "}"); closed && t != "" {
			return t
		}
	}
	return key
}

// slot is the cluster slot of a text without a tag: its CRC16 (XMODEM) modulo 16384.
func slot(text string) uint16 {
	var crc uint16
	for _, b := range []byte(text) {
		crc ^= uint16(b) << 8
		for range 8 {
			if carry := crc & 0x8000; carry != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}

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
	return min(50*time.Millisecond, max(5*time.Millisecond, ttl/20))
}

// forever is longer than any lease.
const forever = 100 * 365 * 24 * time.Hour

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// margin is how long before the key the lease ends: one percent for clocks that drift, and two milliseconds.
func margin(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// check refuses what cannot work, before anything is sent.
func (l *Locker) check(ctx context.Context, key string, ttl time.Duration) error {
	if l == nil || len(l.nodes) == 0 {
		return errors.New("lock: no Redis nodes")
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
