package contract

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/redislock/internal/wire"
)

var releasing = []promise{
	{name: "R1_stale_unlock_spares_the_next_holder", keep: staleUnlockSparesTheNext},
	{name: "R2_unlock_held_up_spares_the_next_holder", keep: unlockHeldUpSparesTheNext},
	{name: "R3_unlock_on_an_ended_context", keep: unlockOnAnEndedContext},
	{name: "R3_context_ends_during_unlock", keep: contextEndsDuringUnlock},
	{name: "R3_unlock_keeps_the_values_of_its_context", keep: unlockKeepsTheValues},
	{name: "R3_unlock_has_two_seconds", keep: unlockHasTwoSeconds, on: "virtual"},
	{name: "R3_each_unlock_has_two_seconds", keep: eachUnlockHasTwoSeconds, on: "virtual"},
	{name: "R4_expired_is_one_round_trip", keep: expiredIsOneRoundTrip},
	{name: "R4_stolen_is_one_round_trip", keep: stolenIsOneRoundTrip},
	{name: "R4_expired_and_stolen_differ", keep: expiredAndStolenDiffer},
	{name: "R4_redis_error_is_not_a_loss", keep: redisErrorIsNotALoss},
	{name: "R4_redis_error_is_no_lost_reply", keep: redisErrorIsNoLostReply},
	{name: "R4_unlock_cut_off_can_be_repeated", keep: unlockCutOffCanBeRepeated},
	{name: "R4_unlock_without_redis_can_be_repeated", keep: unlockWithoutRedisCanBeRepeated},
	{name: "R4_hung_redis_is_an_error", keep: hungUnlockIsAnError},
	{name: "R4_reply_lost_is_not_expired", keep: replyLostIsNotExpired},
	{name: "R4_request_lost_is_sent_again", keep: releaseLostIsSentAgain},
	{name: "R4_every_reply_lost_can_be_repeated", keep: everyReplyLostCanBeRepeated},
	{name: "R4_every_reply_lost_and_another_holds", keep: everyReplyLostAndAnotherHolds, since: "03"},
	{name: "R4_reply_lost_after_the_lease_is_a_loss", keep: replyLostAfterTheLease},
	{name: "R4_unlock_without_memory", keep: unlockWithoutMemory, on: "real"},
	{name: "R5_fresh_token_per_acquisition", keep: freshTokenPerAcquisition},
	{name: "R5_old_handle_spares_the_new_lock", keep: oldHandleSparesTheNew},
	{name: "R6_no_handle", keep: noHandle},
	{name: "R6_second_unlock", keep: secondUnlock},
	{name: "R6_twenty_unlocks_at_once", keep: twentyUnlocksAtOnce},
	{name: "R7_script_cache_flushed", keep: scriptCacheFlushed},
	{name: "R7_two_commands", keep: twoCommands, since: "03"},
}

// A's lease has ended and B has the lock. A's Unlock says "stolen" and leaves B's key alone.
func staleUnlockSparesTheNext(t *trial) {
	a, b := t.client("A"), t.client("B")
	k, _ := a.holds(key)
	t.loses(at)
	next, token := b.holds(key)
	t.returns(unlock(ctx, k), "A's Unlock", stolen)
	t.untouched(at, token)
	t.returns(unlock(ctx, next), "B's Unlock", success)
}

// The same when the lease ends while A's request is on its way. To look first and delete then is not enough.
func unlockHeldUpSparesTheNext(t *trial) {
	a, b := t.client("A"), t.client("B")
	k, _ := a.holds(key)
	late := a.Hold(wire.Releases)
	var err error
	end := begin(func() { err = unlock(ctx, k) })
	late.Await()
	t.loses(at)
	_, token := b.holds(key)
	late.Deliver()
	end()
	t.returns(err, "A's Unlock", stolen)
	t.untouched(at, token)
}

// "defer k.Unlock(ctx)" is what people write, and by then the request's context has often ended.
func unlockOnAnEndedContext(t *trial) {
	a := t.client("A")
	gone, cancel := context.WithCancel(ctx)
	cancel()
	over, stop := context.WithTimeout(ctx, -time.Second)
	defer stop()
	for _, ended := range []context.Context{gone, over} {
		k, _ := a.holds(key)
		t.returns(unlock(ended, k), "Unlock", success)
		t.free(at)
	}
}

// The same when the context ends in the middle, and a request has to be sent again afterwards.
func contextEndsDuringUnlock(t *trial) {
	a := t.client("A", heedDeadlines)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k, _ := a.holds(key)
	a.LoseRequest(func(words []string) bool {
		if !wire.Releases(words) {
			return false
		}
		cancel()
		return true
	}, 1)
	err := unlock(ctx, k)
	if t.ch.background && t.Slack() > 0 && errors.Is(err, context.Canceled) {
		err = unlock(ctx, k) // on a busy machine the answer may take longer than such an Unlock waits
	}
	t.returns(err, "Unlock", success)
	t.free(at)
}

// What the context carries, such as the id of a trace, reaches go-redis' hooks although its end does not.
func unlockKeepsTheValues(t *trial) {
	a := t.client("A")
	k, _ := a.holds(key)
	type id struct{}
	var seen atomic.Value
	a.Redis().AddHook(hook(func(ctx context.Context) {
		if v := ctx.Value(id{}); v != nil {
			seen.Store(v)
		}
	}))
	t.returns(unlock(context.WithValue(ctx, id{}, "trace 7"), k), "Unlock", success)
	t.want(seen.Load() == "trace 7", "a value of the context is lost", seen.Load())
}

// A Redis that hangs costs an Unlock two seconds, if go-redis heeds deadlines.
func unlockHasTwoSeconds(t *trial) {
	a := t.client("A", heedDeadlines)
	k, _ := a.holds(key)
	start := time.Now()
	t.Hang()
	err := unlock(ctx, k)
	t.want(time.Since(start) == 2*time.Second, "Unlock does not take two seconds", time.Since(start))
	t.Resume()
	t.returns(err, "Unlock", deadline)
}

// A second Unlock has to wait for the first, and that does not cost it more than its own two seconds.
func eachUnlockHasTwoSeconds(t *trial) {
	a := t.client("A", heedDeadlines)
	k, _ := a.holds(key)
	t.Hang()
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 400 * time.Millisecond) // virtual
			start := time.Now()
			t.returns(unlock(ctx, k), "Unlock", deadline)
			t.took(start, 2*time.Second, "Unlock takes more than two seconds")
		})
	}
	all.Wait()
	t.Resume()
}

// A key that is gone is a definite answer: asked once, never retried.
func expiredIsOneRoundTrip(t *trial) {
	a := t.client("A")
	k, _ := a.holds(key)
	t.loses(at)
	before := len(a.Requests())
	t.returns(unlock(ctx, k), "Unlock", expired)
	t.want(len(a.Requests()) == before+1, "Unlock asks more than once", a.Requests())
	t.free(at)
}

// A key that is another's is a definite answer too.
func stolenIsOneRoundTrip(t *trial) {
	a := t.client("A")
	k, _ := a.holds(key)
	t.foreign(at, lease)
	before := len(a.Requests())
	t.returns(unlock(ctx, k), "Unlock", stolen)
	t.want(len(a.Requests()) == before+1, "Unlock asks more than once", a.Requests())
	t.untouched(at, "foreign")
}

// The two can be told apart, and both are ErrNotHeld.
func expiredAndStolenDiffer(t *trial) {
	ch := t.ch
	t.want(!errors.Is(ch.ErrExpired, ch.ErrStolen) && !errors.Is(ch.ErrStolen, ch.ErrExpired), "expired and stolen are one error")
	t.want(errors.Is(ch.ErrExpired, ch.ErrNotHeld) && errors.Is(ch.ErrStolen, ch.ErrNotHeld), "a loss is not ErrNotHeld")
	t.want(!errors.Is(ch.ErrNotHeld, ch.ErrNotAcquired) && !errors.Is(ch.ErrNotAcquired, ch.ErrNotHeld), "taken and not held are one error")
}

// A Redis that answers with an error has not said that the lock is lost. It isn't, and the handle still works.
func redisErrorIsNotALoss(t *trial) {
	a := t.client("A")
	k, token := a.holds(key)
	for _, message := range []string{
		"READONLY You can't write against a read only replica.",
		"LOADING Redis is loading the dataset in memory",
		"ERR something else",
	} {
		t.Refuse(message)
		err := unlock(ctx, k)
		t.returns(err, "Unlock", failed)
		t.tells(err, "Unlock", message)
		t.Accept()
		t.untouched(at, token)
	}
	t.returns(unlock(ctx, k), "Unlock when Redis is well", success)
	t.free(at)
}

// An error is an answer: the request has done nothing. Asked once, and a loss later on is still a loss.
func redisErrorIsNoLostReply(t *trial) {
	a := t.client("A")
	k, _ := a.holds(key)
	before := len(a.Requests())
	t.Refuse("ERR something else")
	t.returns(unlock(ctx, k), "Unlock", failed)
	t.Accept()
	t.want(len(a.Requests()) == before+1, "Unlock asks more than once", a.Requests())
	t.loses(at)
	t.returns(unlock(ctx, k), "Unlock after the lease", expired)
}

// The network between client and Redis is gone. The handle works again when it is back.
func unlockCutOffCanBeRepeated(t *trial) {
	a := t.client("A")
	k, token := a.holds(key)
	a.Cut()
	start := time.Now()
	err := unlock(ctx, k)
	t.want(errors.Is(err, context.DeadlineExceeded) || t.classes(err)[0] == failed, "Unlock names no error", err)
	t.want(!errors.Is(err, t.ch.ErrNotHeld), "Unlock knows what it can't know", err)
	t.took(start, 3*time.Second, "Unlock takes long to give up")
	a.Heal()
	t.untouched(at, token)
	t.returns(unlock(ctx, k), "Unlock when the network is back", success)
	t.free(at)
}

// The same when Redis itself is down and comes back with its data.
func unlockWithoutRedisCanBeRepeated(t *trial) {
	a := t.client("A")
	k, token := a.holds(key)
	t.Down()
	start := time.Now()
	err := unlock(ctx, k)
	t.want(err != nil && !errors.Is(err, t.ch.ErrNotHeld), "Unlock knows what it can't know", err)
	t.took(start, 3*time.Second, "Unlock takes long to give up")
	t.Up()
	t.untouched(at, token)
	t.returns(unlock(ctx, k), "Unlock when Redis is back", success)
	t.free(at)
}

// A Redis that hangs gives no answer. Unlock ends with an error, and a second one finds out.
func hungUnlockIsAnError(t *trial) {
	a := t.client("A", impatient, sendOnce)
	k, _ := a.holds(key)
	start := time.Now()
	t.Hang()
	err := unlock(ctx, k)
	t.Resume()
	t.want(err != nil && !errors.Is(err, t.ch.ErrNotHeld), "Unlock knows what it can't know", err)
	t.took(start, 3*time.Second, "Unlock takes long to give up")
	err = unlock(ctx, k)
	t.want(err == nil || errors.Is(err, t.ch.ErrNotHeld), "the second Unlock is not definite", err)
	t.free(at)
}

// Unlock has freed the lock and its reply is lost. Asked again Redis finds no key, and that is Unlock's own work.
func replyLostIsNotExpired(t *trial) {
	a := t.client("A")
	k, _ := a.holds(key)
	a.LoseReply(wire.Releases, 1)
	t.returns(unlock(ctx, k), "Unlock", success)
	t.free(at)
}

// A release that never arrived is sent again.
func releaseLostIsSentAgain(t *trial) {
	a := t.client("A")
	k, _ := a.holds(key)
	a.LoseRequest(wire.Releases, 1)
	t.returns(unlock(ctx, k), "Unlock", success)
	t.free(at)
}

// After an error with unknown outcome the handle can be unlocked again, and says the truth.
func everyReplyLostCanBeRepeated(t *trial) {
	a := t.client("A")
	k, _ := a.holds(key)
	lose := atomic.Bool{}
	lose.Store(true)
	a.LoseReply(func(words []string) bool { return lose.Load() && wire.Releases(words) }, 100)
	t.returns(unlock(ctx, k), "Unlock", failed)
	lose.Store(false)
	t.free(at)
	t.Refuse("ERR something else")
	t.returns(unlock(ctx, k), "Unlock of a Redis in trouble", failed) // and forgets nothing
	t.Accept()
	t.returns(unlock(ctx, k), "the second Unlock", success)
}

// The same when another has taken the lock meanwhile. Within the lease that is no theft: the first Unlock has freed it.
func everyReplyLostAndAnotherHolds(t *trial) {
	a := t.client("A")
	k, _ := a.holds(key)
	lose := atomic.Bool{}
	lose.Store(true)
	a.LoseReply(func(words []string) bool { return lose.Load() && wire.Releases(words) }, 100)
	t.returns(unlock(ctx, k), "Unlock", failed)
	lose.Store(false)
	_, token := t.client("B").holds(key)
	t.returns(unlock(ctx, k), "the second Unlock", success)
	t.untouched(at, token)
}

// When the lease has ended before, a lost reply does not turn the loss into a success.
func replyLostAfterTheLease(t *trial) {
	a := t.client("A")
	k, err := a.tryLock(ctx, key, max(50*time.Millisecond, t.ch.shortest))
	t.returns(err, "TryLock", success)
	if t.ch.background {
		a.Cut() // nobody renews the lease
	}
	until(func() bool { return t.look(at).kind == "none" })
	if t.ch.background {
		a.Heal()
		until(func() bool { return a.Redis().Ping(ctx).Err() == nil })
	}
	a.LoseReply(wire.Named("GET", "DEL", "release"), 1)
	t.returns(unlock(ctx, k), "Unlock", expired)
}

// A Redis without memory refuses what needs more of it. A release needs none.
func unlockWithoutMemory(t *trial) {
	a := t.client("A")
	k, _ := a.holds(key)
	t.Fill()
	t.returns(unlock(ctx, k), "Unlock", success)
	t.Drain()
	t.free(at)
}

var hex128 = regexp.MustCompile(`^[0-9a-f]{32,}$`)

// No two acquisitions share a token, and nobody can guess one.
func freshTokenPerAcquisition(t *trial) {
	a := t.client("A")
	seen := map[string]bool{}
	for range 100 {
		k, err := a.tryLock(ctx, key, lease)
		t.returns(err, "TryLock", success)
		value := t.Truth().GetDel(ctx, at).Val()             // the lease ends
		token := value[strings.LastIndexByte(value, ',')+1:] // chapter 5 puts the owner before it
		t.want(hex128.MatchString(token), "the token is not 128 random bits", token)
		t.want(!seen[token], "two acquisitions have one token", token)
		if h, ok := k.(interface{ Token() string }); ok {
			t.want(h.Token() == token, "the handle has another token", h.Token(), token)
		}
		seen[token] = true
	}
}

// Two acquisitions of one Locker are strangers to each other: the handle of the first can't free the second.
func oldHandleSparesTheNew(t *trial) {
	a := t.client("A")
	first, _ := a.holds(key)
	t.loses(at)
	second, token := a.holds(key)
	t.returns(unlock(ctx, first), "the first handle's Unlock", stolen)
	t.untouched(at, token)
	t.returns(unlock(ctx, second), "the second handle's Unlock", success)
}

// TryLock failed, nobody looked, and the deferred Unlock has no handle, or one that nobody has acquired.
func noHandle(t *trial) {
	t.foreign(at, lease)
	for _, method := range t.ch.noLock {
		t.returns(method(ctx), "a handle of nothing", notHeld)
	}
	t.untouched(at, "foreign")
}

// A second Unlock of one handle is too late: somebody else may have the lock by now.
func secondUnlock(t *trial) {
	a, b := t.client("A"), t.client("B")
	k, _ := a.holds(key)
	t.returns(unlock(ctx, k), "Unlock", success)
	err := unlock(ctx, k)
	t.want(errors.Is(err, t.ch.ErrNotHeld), "the second Unlock frees something", err)
	next, token := b.holds(key)
	err = unlock(ctx, k)
	t.want(errors.Is(err, t.ch.ErrNotHeld), "the third Unlock frees something", err)
	t.untouched(at, token)
	t.returns(unlock(ctx, next), "B's Unlock", success)
}

// Of twenty Unlocks of one handle exactly one frees the lock.
func twentyUnlocksAtOnce(t *trial) {
	a := t.client("A")
	k, _ := a.holds(key)
	var freed, late atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			switch err := unlock(ctx, k); {
			case err == nil:
				freed.Add(1)
			case errors.Is(err, t.ch.ErrNotHeld):
				late.Add(1)
			}
		})
	}
	all.Wait()
	t.want(freed.Load() == 1, "not exactly one Unlock succeeds", freed.Load())
	t.want(late.Load() == 19, "an Unlock too many is not ErrNotHeld", late.Load())
	t.free(at)
}

// Redis forgets its scripts at a restart, a promotion or SCRIPT FLUSH. No call may notice.
func scriptCacheFlushed(t *trial) {
	a := t.client("A")
	k, _ := a.holds(key)
	t.Truth().ScriptFlush(ctx)
	t.returns(unlock(ctx, k), "Unlock", success)
	t.free(at)
	t.Truth().ScriptFlush(ctx)
	k, err := a.lock(ctx, key, lease)
	t.returns(err, "Lock", success)
	t.leased(at, lease)
	t.returns(unlock(ctx, k), "Unlock", success)
}

// A lock that nobody else wants costs two commands, the first time, the next time, and with an empty script cache.
func twoCommands(t *trial) {
	a := t.client("A")
	for round := range 3 {
		if round == 2 {
			t.Truth().ScriptFlush(ctx)
		}
		before := len(a.Requests())
		k, _ := a.holds(key)
		t.returns(unlock(ctx, k), "Unlock", success)
		sent := a.Requests()[before:]
		t.want(fmt.Sprint(sent) == "[acquire release]", "TryLock and Unlock are not one command each", sent)
	}
}
