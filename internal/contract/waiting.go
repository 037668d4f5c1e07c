package contract

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/redislock/internal/wire"
)

// The back-off that all chapters have by default.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

var waiting = []promise{
	{name: "A4_deadline_while_waiting", keep: deadlineWhileWaiting},
	{name: "A4_deadline_inside_an_attempt", keep: deadlineInsideAnAttempt},
	{name: "A4_cancel_while_waiting", keep: cancelWhileWaiting},
	{name: "A4_nothing_is_sent_after_the_end", keep: nothingIsSentAfterTheEnd, on: "virtual"},
	{name: "A4_context_ends_as_the_lock_comes", keep: contextEndsAsTheLockComes},
	{name: "A4_redis_error_while_waiting", keep: redisErrorWhileWaiting},
	{name: "A9_waiter_enters_after_release", keep: waiterEntersAfterRelease},
	{name: "A9_waiter_enters_after_expiry", keep: waiterEntersAfterExpiry, on: "virtual"},
	{name: "A9_fifty_waiters_are_no_storm", keep: fiftyWaitersAreNoStorm, on: "virtual"},
	{name: "A9_pauses_double", keep: pausesDouble, on: "virtual"},
	{name: "A9_five_minutes_of_waiting", keep: fiveMinutesOfWaiting, on: "virtual"},
	{name: "A9_the_callers_back_off", keep: theCallersBackoff, on: "virtual"},
	{name: "A9_the_longest_back_off", keep: theLongestBackoff, on: "virtual"},
	{name: "A9_errors_are_no_storm", keep: errorsAreNoStorm, on: "virtual"},
	{name: "A9_waiting_holds_no_connection", keep: waitingHoldsNoConnection},
}

// Who waits until the deadline gave up and found the lock taken. Both are true, and both can be asked for.
func deadlineWhileWaiting(t *trial) {
	_, token := t.client("A").holds(key)
	b := t.client("B")
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
	defer cancel()
	_, err := b.lock(ctx, key, lease)
	t.returns(err, "Lock", taken, deadline)
	t.took(start, 150*time.Millisecond, "Lock outstays its deadline")
	t.want(time.Since(start) >= 150*time.Millisecond, "Lock does not wait", time.Since(start))
	t.want(len(b.Requests()) > 1, "Lock does not try again", b.Requests())
	t.untouched(at, token)
}

// The same when the deadline falls into an attempt, which then fails for another reason.
func deadlineInsideAnAttempt(t *trial) {
	_, token := t.client("A").holds(key)
	b := t.client("B", sendOnce, heedDeadlines)
	ctx, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
	defer cancel()
	var err error
	end := begin(func() { _, err = b.lock(ctx, key, lease) })
	tries(b)
	late := b.Hold(wire.Acquires)
	end()
	t.returns(err, "Lock", taken, deadline)
	late.Deliver()
	t.untouched(at, token)
}

// A cancelled Lock returns at once and says so. The cause is the caller's own, and can be anything: mixed into the answer, it
// would read as Redis'.
func cancelWhileWaiting(t *trial) {
	_, token := t.client("A").holds(key)
	b := t.client("B")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var err error
	end := begin(func() { _, err = b.lock(ctx, key, lease) })
	tries(b)
	tries(b) // so the first has been answered
	start := time.Now()
	cancel(t.ch.ErrNotHeld)
	end()
	t.took(start, 0, "Lock goes on after a cancel")
	t.returns(err, "Lock", taken, cancelled)
	t.untouched(at, token)
}

// A pause that ends in the very instant of the deadline is the last. With pauses of a nanosecond or two that happens often.
func nothingIsSentAfterTheEnd(t *trial) {
	t.foreign(at, 0)
	b := t.client("B")
	b.Redis().Ping(ctx) // a new connection takes time
	var asked stamps
	b.Redis().AddHook(hook(asked.note))
	waits := t.ch.withBackoff(b.Redis(), 2, 2)
	for range 20 {
		end := time.Now().Add(20 * time.Nanosecond)
		ctx, cancel := context.WithDeadline(ctx, end)
		t.returns(waits(ctx), "Lock", taken, deadline)
		cancel()
		times := asked.all()
		t.want(times[len(times)-1].Before(end), "something is sent when the deadline has passed")
	}
}

// The context ends while the attempt that succeeds is on its way. The caller gets the lock, or an error and no lock.
func contextEndsAsTheLockComes(t *trial) {
	t.client("A").holds(key)
	b := t.client("B")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end := begin(func() { _, _ = b.lock(ctx, key, lease) })
	tries(b)
	late := b.Hold(wire.Acquires)
	late.Await()
	t.loses(at)
	cancel()
	late.Deliver()
	end()
}

// A Redis error ends the waiting. It is neither "taken" nor a context's error, although the lock was taken before.
func redisErrorWhileWaiting(t *trial) {
	_, token := t.client("A").holds(key)
	b := t.client("B")
	var err error
	end := begin(func() { _, err = b.lock(ctx, key, lease) })
	tries(b)
	t.Refuse("ERR something")
	end()
	t.Accept()
	t.returns(err, "Lock", failed)
	t.untouched(at, token)
}

// A waiter gets the lock within one longest pause after it became free.
func waiterEntersAfterRelease(t *trial) {
	k, token := t.client("A").holds(key)
	b := t.client("B")
	var err error
	end := begin(func() { _, err = b.lock(ctx, key, lease) })
	tries(b)
	t.returns(unlock(ctx, k), "Unlock", success)
	start := time.Now()
	end()
	t.took(start, longestPause, "a waiter is late after a release")
	t.returns(err, "Lock", success)
	t.want(t.leased(at, lease) != token || t.ch.Number() == "01", "two acquisitions have one token")
}

// Redis says how long the key has left, so a waiter comes back right after its end. Twenty waiters, because
// without the hint one of them may be lucky.
func waiterEntersAfterExpiry(t *trial) {
	for i := range 20 {
		resource := fmt.Sprint("order:", i)
		ttl := 2*time.Second + time.Duration(i)*37*time.Millisecond
		t.foreign("lock:"+resource, ttl)
		start := time.Now()
		_, err := t.client(fmt.Sprint("W", i)).lock(ctx, resource, lease)
		t.returns(err, "Lock", success)
		late := time.Since(start) - ttl
		t.want(late >= 0, "a waiter enters before the expiry", late)
		t.want(late <= firstPause+time.Millisecond, "a waiter is late after an expiry", late)
	}
}

// Fifty waiters leave Redis in peace: each asks some thirty times in ten seconds, and they don't ask together.
func fiftyWaitersAreNoStorm(t *trial) {
	const waiters, wait = 50, 10 * time.Second
	k, _ := t.client("A").holds(key)
	start := time.Now()
	var asked stamps
	var entered sync.WaitGroup
	for i := range waiters {
		w := t.client(fmt.Sprint("W", i))
		w.Redis().AddHook(hook(asked.note))
		entered.Go(func() {
			k, err := w.lock(ctx, key, lease)
			t.returns(err, "Lock", success)
			t.returns(unlock(ctx, k), "a waiter's Unlock", success)
		})
	}
	time.Sleep(wait)
	times := asked.all()
	t.want(len(times) <= waiters*50, "the waiters ask too often", len(times))
	t.want(len(times) >= waiters*int(wait/longestPause), "the waiters do not ask", len(times))
	t.want(crowd(times, start.Add(5*time.Second)) <= waiters/2, "the waiters ask together")

	t.returns(unlock(ctx, k), "Unlock", success)
	start = time.Now()
	entered.Wait()
	t.took(start, 5*time.Second, "fifty waiters take long to pass one by one")
	t.free(at)
}

// crowd is the largest number of instants within 50 ms, from some time on.
func crowd(times []time.Time, from time.Time) int {
	most := 0
	for i, first := range times {
		n, _ := slices.BinarySearchFunc(times, first.Add(50*time.Millisecond), time.Time.Compare)
		if !first.Before(from) {
			most = max(most, n-i)
		}
	}
	return most
}

// stamps notes when commands are sent.
type stamps struct {
	mu    sync.Mutex
	times []time.Time
}

func (s *stamps) note(context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, time.Now())
}

func (s *stamps) all() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := slices.Clone(s.times)
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// hook is a go-redis hook that is told of every command.
type hook func(ctx context.Context)

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h(ctx)
		return next(ctx, cmd)
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The first pause is at most the shortest one, each may be twice as long as the one before, and half of it is left to
// chance.
func pausesDouble(t *trial) {
	t.foreign(at, 0)
	b := t.client("B")
	b.Redis().Ping(ctx) // a new connection would count
	var asked stamps
	b.Redis().AddHook(hook(asked.note))
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := b.lock(ctx, key, lease)
	t.returns(err, "Lock", taken, deadline)
	upTo := firstPause
	times := asked.all()
	for i := range len(times) - 1 {
		pause := times[i+1].Sub(times[i])
		t.want(pause >= upTo/2 && pause <= upTo, "a pause is not what it should be", i, pause)
		upTo = min(2*upTo, longestPause)
	}
}

// The pauses grow up to their longest and stay there, however long it takes.
func fiveMinutesOfWaiting(t *trial) {
	const patience = 5 * time.Minute
	t.foreign(at, 0)
	b := t.client("B")
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := b.lock(ctx, key, lease)
	t.returns(err, "Lock", taken, deadline)
	n := len(b.Requests())
	t.want(n >= int(patience/longestPause), "the pauses grow beyond the longest", n)
	t.want(n <= 2*int(patience/longestPause)+20, "the pauses are too short", n)
}

// The pauses are the caller's, if there are any.
func theCallersBackoff(t *trial) {
	t.foreign(at, 0)
	b := t.client("B")
	ctx, cancel := context.WithTimeout(ctx, 100*time.Second)
	defer cancel()
	err := t.ch.withBackoff(b.Redis(), 2*time.Second, 10*time.Second)(ctx)
	t.returns(err, "Lock", taken, deadline)
	n := len(b.Requests())
	t.want(n >= 10 && n <= 25, "the pauses are not the caller's", n)
	short, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	t.returns(t.ch.withBackoff(b.Redis(), time.Second, time.Second)(short), "Lock with equal pauses", taken, deadline)
}

// The pauses may be days, and no number of doublings makes them negative.
func theLongestBackoff(t *trial) {
	const day = 24 * time.Hour
	t.foreign(at, 0)
	b := t.client("B")
	ctx, cancel := context.WithTimeout(ctx, 100*day)
	defer cancel()
	t.returns(t.ch.withBackoff(b.Redis(), 2*day, 4*day)(ctx), "Lock", taken, deadline)
	n := len(b.Requests())
	t.want(n >= 25 && n <= 51, "the pauses are not the caller's", n)
}

// A Redis that answers with errors has trouble enough. Lock reports the first one and does not insist.
func errorsAreNoStorm(t *trial) {
	a := t.client("A")
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	t.Refuse("LOADING Redis is loading the dataset in memory")
	_, err := a.lock(ctx, key, lease)
	t.Accept()
	t.returns(err, "Lock", failed)
	t.want(len(a.Requests()) <= 8, "Lock insists", a.Requests())
}

// Twenty waiters share one connection with the holder, and the holder's Unlock finds it free.
func waitingHoldsNoConnection(t *trial) {
	a := t.client("A", oneConnection)
	k, _ := a.holds(key)
	var waiters sync.WaitGroup
	for range 20 {
		waiters.Go(func() {
			k, err := a.lock(ctx, key, lease)
			t.returns(err, "Lock", success)
			t.returns(unlock(ctx, k), "a waiter's Unlock", success)
		})
	}
	until(func() bool { return len(a.Requests()) > 40 })
	start := time.Now()
	t.returns(unlock(ctx, k), "Unlock", success)
	t.took(start, 0, "Unlock has to wait for the waiters")
	waiters.Wait()
	t.free(at)
}
