package contract

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing/iotest"
	"time"

	"example.com/redislock/internal/story"
	"example.com/redislock/internal/wire"
)

var acquiring = []promise{
	{name: "A1_reply_lost_is_not_taken", keep: replyLostIsNotTaken},
	{name: "A1_every_reply_lost_is_an_error", keep: everyReplyLostIsAnError},
	{name: "A1_reply_lost_of_the_last_attempt", keep: replyLostOfTheLastAttempt},
	{name: "A1_request_lost_is_sent_again", keep: requestLostIsSentAgain},
	{name: "A1_reply_lost_when_really_taken", keep: replyLostWhenReallyTaken},
	{name: "A2_failed_acquire_is_taken_back", keep: failedAcquireIsTakenBack},
	{name: "A2_failed_acquire_spares_another's_key", keep: failedAcquireSparesAnothers},
	{name: "A2_late_request_leaves_one_ttl", keep: lateRequestLeavesOneTTL},
	{name: "A3_hung_redis_is_an_error", keep: hungRedisIsAnError},
	{name: "A3_deadline_is_kept", keep: deadlineIsKept},
	{name: "A4_taken_is_only_taken", keep: takenIsOnlyTaken},
	{name: "A4_redis_error_is_not_taken", keep: redisErrorIsNotTaken},
	{name: "A4_ended_context_sends_nothing", keep: endedContextSendsNothing},
	{name: "A5_no_lock_without_redis", keep: noLockWithoutRedis},
	{name: "A5_no_lock_without_memory", keep: noLockWithoutMemory},
	{name: "A5_no_lock_without_randomness", keep: noLockWithoutRandomness, since: "02"},
	{name: "A5_a_real_attempt", keep: aRealAttempt},
	{name: "A6_key_and_ttl_come_together", keep: keyAndTTLComeTogether},
	{name: "A6_no_success_without_a_ttl", keep: noSuccessWithoutATTL},
	{name: "A6_crash_leaves_one_ttl", keep: crashLeavesOneTTL},
	{name: "A7_key_without_ttl_is_not_repaired", keep: keyWithoutTTLIsNotRepaired},
	{name: "A8_short_ttl_is_refused", keep: shortTTLIsRefused},
	{name: "A8_ttl_is_kept_to_the_millisecond", keep: ttlIsKept},
	{name: "A11_key_of_another_type", keep: keyOfAnotherType},
}

// A reply that is lost is no answer. go-redis sends the request again by itself, up to three times, and the caller
// gets the lock or an error, never "taken" by its own key.
func replyLostIsNotTaken(t *trial) {
	for lost := 1; lost <= 3; lost++ {
		resource := fmt.Sprint("order:", lost)
		a := t.client(fmt.Sprint("A", lost))
		a.LoseReply(wire.Acquires, lost)
		k, err := a.tryLock(ctx, resource, lease)
		t.want(!errors.Is(err, t.ch.ErrNotAcquired), "TryLock answers \"taken\", and the key is its own", err)
		if err != nil {
			t.free("lock:" + resource)
			continue
		}
		t.leased("lock:"+resource, lease)
		t.returns(unlock(ctx, k), "Unlock", success)
		t.free("lock:" + resource)
	}
}

// When go-redis gives up, nobody knows what has happened. The caller gets an error, and no key stays.
func everyReplyLostIsAnError(t *trial) {
	a := t.client("A")
	a.LoseReply(wire.Acquires, 4)
	_, err := a.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", failed)
	t.free(at)
}

// The same when only the last attempt gets through to Redis.
func replyLostOfTheLastAttempt(t *trial) {
	a := t.client("A")
	a.LoseRequest(wire.Acquires, 3)
	sent := 0
	a.LoseReply(func(words []string) bool { sent++; return wire.Acquires(words) }, 1)
	_, err := a.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", failed)
	t.want(sent > 0, "the last attempt is never made")
	t.free(at)
}

// A request that is lost has not been executed, so the next one is the first.
func requestLostIsSentAgain(t *trial) {
	a := t.client("A")
	a.LoseRequest(wire.Acquires, 3)
	_, err := a.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", success)
	t.leased(at, lease)
}

// To be sent twice makes nobody an owner: the lock that another holds is taken.
func replyLostWhenReallyTaken(t *trial) {
	_, token := t.client("A").holds(key)
	b := t.client("B")
	b.LoseReply(wire.Acquires, 2)
	_, err := b.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", taken)
	t.untouched(at, token)
}

// An attempt that failed takes its own key back, also when it failed because the caller's context ended.
func failedAcquireIsTakenBack(t *trial) {
	a := t.client("A", sendOnce)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.LoseReply(func(words []string) bool {
		if !wire.Acquires(words) {
			return false
		}
		cancel()
		return true
	}, 1)
	_, err := a.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", cancelled)
	if t.ch.cleansUp() {
		untilWithin(5*time.Second, func() bool { return slices.Contains(a.Requests(), "release") })
	}
	t.free(at)
}

// An attempt that failed while another holds the lock leaves that one's key alone.
func failedAcquireSparesAnothers(t *trial) {
	k, token := t.client("A").holds(key)
	b := t.client("B")
	b.LoseReply(wire.Acquires, 4)
	_, err := b.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", failed)
	t.untouched(at, token)
	t.returns(unlock(ctx, k), "Unlock", success)
}

// No clean-up helps against a request that arrives after it. It costs others one TTL, and the caller is told.
func lateRequestLeavesOneTTL(t *trial) {
	a := t.client("A", sendOnce, heedDeadlines)
	late := a.Hold(wire.Acquires)
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err := a.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", deadline)
	t.want(t.ch.background || errors.Is(err, os.ErrDeadlineExceeded), "the error hides what go-redis says", err)
	t.want(err != nil && strings.Contains(err.Error(), "may stay taken for up to "+lease.String()),
		"the error does not say that the key may stay", err)
	late.Await()
	t.free(at)
	if t.ch.cleansUp() {
		untilWithin(5*time.Second, func() bool { return slices.Contains(a.Requests(), "release") }) // the clean-up comes first
	}
	late.Deliver()
	t.leased(at, lease)
	_, err = t.client("B").tryLock(context.Background(), key, lease)
	t.returns(err, "B's TryLock", taken)
}

// A Redis that hangs gives no answer, so the outcome is unknown. What it executes later stays for one TTL at most.
func hungRedisIsAnError(t *trial) {
	a := t.client("A", sendOnce, impatient)
	k, _ := a.holds("warm-up") // the connection is open when Redis hangs
	t.returns(unlock(ctx, k), "Unlock", success)
	start := time.Now()
	t.Hang()
	_, err := a.tryLock(ctx, key, lease)
	t.Resume()
	t.returns(err, "TryLock", failed)
	t.took(start, 3*time.Second, "TryLock takes long to give up")
	t.expiresWithin(at, lease)
}

// A client that heeds deadlines is enough for a call that heeds them, also where the attempt has to be taken back.
func deadlineIsKept(t *trial) {
	a := t.client("A", sendOnce, heedDeadlines)
	k, _ := a.holds("warm-up") // the connection is open when Redis hangs
	t.returns(unlock(ctx, k), "Unlock", success)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	t.Hang()
	_, err := a.tryLock(short, key, lease)
	t.took(start, time.Second, "TryLock outlasts its ctx")
	t.Resume()
	t.returns(err, "TryLock", deadline)
	t.expiresWithin(at, lease)
}

// "Taken" is an answer of its own: no Redis error and nobody's context.
func takenIsOnlyTaken(t *trial) {
	_, token := t.client("A").holds(key)
	b := t.client("B")
	_, err := b.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", taken)
	t.untouched(at, token)
}

// A Redis that answers with an error does not say "taken", neither when the key is free nor when it isn't.
func redisErrorIsNotTaken(t *trial) {
	a, b := t.client("A"), t.client("B")
	_, token := a.holds(key)
	for _, message := range []string{
		"LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"ERR something else",
	} {
		t.Refuse(message)
		_, err := b.tryLock(ctx, "order:2", lease)
		t.returns(err, "TryLock", failed)
		_, err = b.tryLock(ctx, key, lease)
		t.returns(err, "TryLock", failed)
		t.tells(err, "TryLock", message)
		t.Accept()
	}
	t.untouched(at, token)
	t.free("lock:order:2")
}

// A context that has ended already is the answer, and Redis is not asked.
func endedContextSendsNothing(t *trial) {
	a := t.client("A")
	gone, cancel := context.WithCancel(ctx)
	cancel()
	over, stop := context.WithTimeout(ctx, -time.Second)
	defer stop()
	_, err := a.tryLock(gone, key, lease)
	t.returns(err, "TryLock", cancelled)
	_, err = a.lock(gone, key, lease)
	t.returns(err, "Lock", cancelled)
	_, err = a.tryLock(over, key, lease)
	t.returns(err, "TryLock", deadline)
	_, err = a.lock(over, key, lease)
	t.returns(err, "Lock", deadline)
	t.want(len(a.Requests()) == 0, "something is sent", a.Requests())
	t.free(at)
}

// Without Redis there is no lock. Nobody goes on without it.
func noLockWithoutRedis(t *trial) {
	a := t.client("A")
	_, token := t.client("B").holds("order:2")
	t.Down()
	start := time.Now()
	_, err := a.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", failed)
	patient, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err = a.lock(patient, key, lease)
	t.returns(err, "Lock", failed)
	t.took(start, 10*time.Second, "it takes long to give up")
	t.Up()
	t.free(at)
	t.untouched("lock:order:2", token)
	until(func() bool { // go-redis goes on refusing for up to a second, when it has had many refusals
		_, err = a.tryLock(ctx, key, lease)
		return err == nil
	})
	t.returns(err, "TryLock when Redis is back", success)
}

// A Redis without memory for the key gives no lock.
func noLockWithoutMemory(t *trial) {
	a := t.client("A")
	t.Fill()
	_, err := a.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", failed)
	t.Drain()
	t.free(at)
	_, err = a.tryLock(ctx, key, lease)
	t.returns(err, "TryLock when there is memory", success)
}

// Without randomness there is no token, and nobody guesses one. A source that gives a byte at a time is slow, and no less
// random.
func noLockWithoutRandomness(t *trial) {
	a := t.client("A")
	defer func(good io.Reader) { rand.Reader = good }(rand.Reader)
	errNoEntropy := errors.New("no entropy")
	slow := iotest.OneByteReader(rand.Reader)
	rand.Reader = iotest.ErrReader(errNoEntropy)
	for name, acquire := range map[string]func(context.Context, string, time.Duration) (story.Lock, error){
		"TryLock": a.tryLock, "Lock": a.lock,
	} {
		_, err := acquire(ctx, key, lease)
		t.returns(err, name, failed)
		t.want(errors.Is(err, errNoEntropy), "the error hides its cause", err)
	}
	t.want(len(a.Requests()) == 0, "something is sent", a.Requests())
	t.free(at)
	rand.Reader = slow
	_, token := a.holds(key)
	t.want(!strings.HasSuffix(token, "00000000000000000000"), "the token is mostly zeros", token)
}

// Both calls ask Redis at least once, however little time there is.
func aRealAttempt(t *trial) {
	a := t.client("A")
	k, err := a.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", success)
	t.want(len(a.Requests()) > 0, "TryLock asks nobody")
	t.returns(unlock(ctx, k), "Unlock", success)
	before := len(a.Requests())
	_, err = a.lock(ctx, key, lease)
	t.returns(err, "Lock", success)
	t.want(len(a.Requests()) > before, "Lock asks nobody")
	t.leased(at, lease)
}

// Whoever has the lock has a key with a TTL, and nobody else can have it.
func keyAndTTLComeTogether(t *trial) {
	a, b := t.client("A"), t.client("B")
	k, err := a.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", success)
	t.want(k != nil && k.Key() == key, "the handle has another key")
	token := t.leased(at, lease)
	_, err = b.tryLock(ctx, key, lease)
	t.returns(err, "B's TryLock", taken)
	t.untouched(at, token)
	t.returns(unlock(ctx, k), "Unlock", success)
	t.free(at)
	_, err = b.lock(ctx, key, lease)
	t.returns(err, "B's Lock", success)
	t.leased(at, lease)
}

// Whoever needs a second request for the TTL, and can't get it through, does not have the lock.
func noSuccessWithoutATTL(t *trial) {
	a := t.client("A")
	a.LoseRequest(wire.Extends, 4)
	if _, err := a.tryLock(ctx, key, lease); err == nil {
		t.leased(at, lease)
	}
}

// A client that dies right after Redis has executed its first request leaves a key that ends by itself.
func crashLeavesOneTTL(t *trial) {
	a := t.client("A")
	dead := false
	a.LoseReply(func(words []string) bool {
		dead = dead || wire.Acquires(words)
		return dead
	}, 1)
	a.LoseRequest(func([]string) bool { return dead }, 1000)
	_, err := a.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", failed) // if it were alive
	t.leased(at, lease)
	_, err = t.client("B").tryLock(ctx, key, lease)
	t.returns(err, "B's TryLock", taken)
}

// A key without TTL that somebody else made is taken. To give it a TTL "to repair it" would make two owners.
func keyWithoutTTLIsNotRepaired(t *trial) {
	a := t.client("A")
	t.foreign(at, 0)
	_, err := a.tryLock(ctx, key, lease)
	t.returns(err, "TryLock", taken)
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err = a.lock(ctx, key, lease)
	t.returns(err, "Lock", taken, deadline)
	s := t.look(at)
	t.want(s == state{"string", "foreign", forever}, "another's key is touched", s)
}

// Redis counts milliseconds. A TTL that has none is an error before anything is sent.
func shortTTLIsRefused(t *trial) {
	a := t.client("A")
	for _, ttl := range []time.Duration{0, -1, -time.Second, 1, 999 * time.Microsecond} {
		_, err := a.tryLock(ctx, key, ttl)
		t.returns(err, "TryLock", failed)
		_, err = a.lock(ctx, key, ttl)
		t.returns(err, "Lock", failed)
	}
	t.want(len(a.Requests()) == 0, "something is sent", a.Requests())
	t.free(at)
}

// Every other TTL is the key's, in whole milliseconds.
func ttlIsKept(t *trial) {
	a := t.client("A")
	for _, ttl := range []time.Duration{t.ch.shortest, t.ch.shortest + 500*time.Microsecond, lease, 24 * time.Hour} {
		k, err := a.tryLock(ctx, key, ttl)
		t.returns(err, "TryLock", success)
		s := t.look(at)
		t.want(s.ttl <= ttl.Truncate(time.Millisecond), "the key stays longer than its ttl", ttl, s)
		t.want(s.ttl >= ttl.Truncate(time.Millisecond)-t.Slack(), "the key ends before its ttl", ttl, s)
		t.want(s.ttl != forever, "the key stays for ever", ttl, s)
		if err = unlock(ctx, k); ttl == lease {
			t.returns(err, "Unlock", success)
		}
	}
	t.free(at)
}

// A key that holds something else than a lock is a mistake of the caller's, and not somebody's lock.
func keyOfAnotherType(t *trial) {
	a := t.client("A")
	t.Truth().HSet(ctx, "lock:a hash", "field", "value")
	t.Truth().RPush(ctx, "lock:a list", "one", "two")
	for _, resource := range []string{"a hash", "a list"} {
		_, err := a.tryLock(ctx, resource, lease)
		t.returns(err, "TryLock", failed)
		_, err = a.tryLock(ctx, resource, lease)
		t.returns(err, "TryLock", failed)
	}
	t.want(t.Truth().HGet(ctx, "lock:a hash", "field").Val() == "value", "the hash is touched")
	t.want(t.Truth().LLen(ctx, "lock:a list").Val() == 2, "the list is touched")
	t.want(t.Truth().PTTL(ctx, "lock:a hash").Val() == forever, "the hash gets a ttl")
	t.want(t.Truth().PTTL(ctx, "lock:a list").Val() == forever, "the list gets a ttl")
}
