package contract

import (
	"context"
	"errors"
	"runtime"
	"time"
)

var doing = []promise{
	{name: "R8_do_unlocks_on_return", keep: doUnlocksOnReturn, since: "03"},
	{name: "R8_do_unlocks_on_error", keep: doUnlocksOnError, since: "03"},
	{name: "R8_do_unlocks_on_panic", keep: doUnlocksOnPanic, since: "03"},
	{name: "R8_do_unlocks_on_goexit", keep: doUnlocksOnGoexit, since: "03"},
	{name: "R8_do_unlocks_on_an_ended_context", keep: doUnlocksOnAnEndedContext, since: "03"},
	{name: "R8_do_hands_its_context_on", keep: doHandsItsContextOn, since: "03"},
	{name: "R8_do_shows_both_errors", keep: doShowsBothErrors, since: "03"},
	{name: "R8_do_shows_a_lost_lease", keep: doShowsALostLease, since: "03"},
	{name: "R8_do_without_the_lock_does_nothing", keep: doWithoutTheLock, since: "03"},
}

var errBusiness = errors.New("the card was declined")

func (c *client) do(ctx context.Context, fn func(context.Context) error) error {
	return c.t.ch.do(c.Redis()).Do(ctx, key, lease, fn)
}

// The function runs once, inside the lock, and the lock is free afterwards.
func doUnlocksOnReturn(t *trial) {
	a := t.client("A")
	runs := 0
	err := a.do(ctx, func(context.Context) error {
		runs++
		t.leased(at, lease)
		return nil
	})
	t.returns(err, "Do", success)
	t.want(runs == 1, "the function does not run once", runs)
	t.free(at)
}

// The function's error comes out, and the lock is free.
func doUnlocksOnError(t *trial) {
	a := t.client("A")
	err := a.do(ctx, func(context.Context) error { return errBusiness })
	t.want(errors.Is(err, errBusiness), "the function's error is hidden", err)
	t.returns(err, "Do", failed)
	t.free(at)
}

// The panic goes on with its value, and the lock is free.
func doUnlocksOnPanic(t *trial) {
	a := t.client("A")
	func() {
		defer func() {
			v := recover()
			t.want(v == errBusiness, "the panic's value is lost", v)
		}()
		_ = a.do(ctx, func(context.Context) error { panic(errBusiness) })
		t.want(false, "Do returns after a panic")
	}()
	t.free(at)
}

// A goroutine that ends, as t.FailNow does, frees the lock.
func doUnlocksOnGoexit(t *trial) {
	a := t.client("A")
	begin(func() {
		_ = a.do(ctx, func(context.Context) error {
			runtime.Goexit()
			return nil
		})
		t.want(false, "Do returns after a Goexit")
	})()
	t.free(at)
}

// The context ends while the function runs. It frees the lock all the same.
func doUnlocksOnAnEndedContext(t *trial) {
	a := t.client("A")
	ctx, cancel := context.WithCancel(ctx)
	err := a.do(ctx, func(context.Context) error {
		cancel()
		return nil
	})
	t.returns(err, "Do", success)
	t.free(at)
}

// The function's context has the caller's values, and ends when the caller's does, for the same cause.
func doHandsItsContextOn(t *trial) {
	a := t.client("A")
	type id struct{}
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, id{}, "trace 7"))
	defer cancel(nil)
	err := a.do(ctx, func(work context.Context) error {
		t.want(work.Value(id{}) == "trace 7", "a value of the context is lost", work.Value(id{}))
		t.want(work.Err() == nil, "the function begins with a context that has ended", work.Err())
		cancel(errBusiness)
		<-work.Done()
		t.want(context.Cause(work) == errBusiness, "the cause is lost", context.Cause(work))
		return nil
	})
	t.returns(err, "Do", success)
	t.free(at)
}

// The function failed, and Redis can't be reached for the Unlock. Neither error hides the other.
func doShowsBothErrors(t *trial) {
	a := t.client("A")
	err := a.do(ctx, func(context.Context) error {
		t.Refuse("ERR something else")
		return errBusiness
	})
	t.Accept()
	t.want(errors.Is(err, errBusiness), "the function's error is hidden", err)
	t.want(err != nil && len(err.Error()) > len(errBusiness.Error()), "Unlock's error is hidden", err)
	t.leased(at, lease)
}

// The function outlived its lease. The caller learns it, with the function's error or without one.
func doShowsALostLease(t *trial) {
	a := t.client("A")
	for _, result := range []error{nil, errBusiness} {
		err := a.do(ctx, func(context.Context) error {
			t.loses(at)
			return result
		})
		t.returns(err, "Do", expired)
		t.want(result == nil || errors.Is(err, errBusiness), "the function's error is hidden", err)
	}
	t.free(at)
}

// Without the lock the function does not run.
func doWithoutTheLock(t *trial) {
	a := t.client("A")
	t.foreign(at, lease)
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	err := a.do(ctx, func(context.Context) error {
		t.want(false, "the function runs without the lock")
		return nil
	})
	t.returns(err, "Do", taken, deadline)
	t.untouched(at, "foreign")
}
