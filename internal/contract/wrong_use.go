package contract

import (
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var wrongUse = []promise{
	{name: "U_empty_key", keep: emptyKey},
	{name: "U_nil_client", keep: nilClient},
	{name: "U_wrapped_client", keep: wrappedClient},
	{name: "U_nil_locker", keep: nilLocker},
	{name: "U_closed_client", keep: closedClient},
	{name: "U_back_off_that_does_not_work", keep: backoffThatDoesNotWork},
	{name: "U_odd_key_names", keep: oddKeyNames},
}

// An empty key is an error before anything is sent.
func emptyKey(t *trial) {
	a := t.client("A")
	_, err := a.tryLock(ctx, "", lease)
	t.returns(err, "TryLock", failed)
	_, err = a.lock(ctx, "", lease)
	t.returns(err, "Lock", failed)
	t.want(len(a.Requests()) == 0, "something is sent", a.Requests())
	t.free("lock:")
}

// A client that is not there is an error and no panic, also as a nil pointer in the interface.
func nilClient(t *trial) {
	var single *redis.Client
	var cluster *redis.ClusterClient
	var ring *redis.Ring
	for _, rdb := range []redis.UniversalClient{nil, single, cluster, ring} {
		c := &client{t: t, locker: t.ch.New(rdb)}
		_, err := c.tryLock(ctx, key, lease)
		t.returns(err, "TryLock", failed)
		_, err = c.lock(ctx, key, lease)
		t.returns(err, "Lock", failed)
	}
}

// A client may be of the caller's own type, and that need not be a pointer.
func wrappedClient(t *trial) {
	a := t.client("A")
	a.locker = t.ch.New(struct{ redis.UniversalClient }{a.Redis()})
	k, _ := a.holds(key)
	t.leased(at, lease)
	t.returns(unlock(ctx, k), "Unlock", success)
}

// A Locker that is not there is an error too.
func nilLocker(t *trial) {
	for _, method := range t.ch.nilLocker {
		t.returns(method(ctx), "a nil Locker", failed)
	}
}

// A client that has been closed, often by a defer in the wrong order, is an error at once.
func closedClient(t *trial) {
	a := t.client("A")
	k, token := a.holds(key)
	_ = a.Redis().Close()
	start := time.Now()
	_, err := a.tryLock(ctx, "order:2", lease)
	t.returns(err, "TryLock", failed)
	_, err = a.lock(ctx, "order:2", lease)
	t.returns(err, "Lock", failed)
	t.returns(unlock(ctx, k), "Unlock", failed)
	t.took(start, 0, "it takes long to say so")
	t.untouched(at, token)
	t.free("lock:order:2")
}

// A back-off without pauses, or one that ends before it begins, would be a storm. It is an error.
func backoffThatDoesNotWork(t *trial) {
	a := t.client("A")
	for _, pause := range [][2]time.Duration{{0, time.Second}, {-1, time.Second}, {time.Second, time.Millisecond}, {0, 0}} {
		t.returns(t.ch.withBackoff(a.Redis(), pause[0], pause[1])(ctx), "Lock", failed)
	}
	t.want(len(a.Requests()) == 0, "something is sent", a.Requests())
}

// Every name is a lock of its own, whatever it consists of.
func oddKeyNames(t *trial) {
	a, b := t.client("A"), t.client("B")
	names := []string{
		"{", "}", "{}", "a}b", "{a}b{c}", " ", "  ", "a\r\nb", "\x00", "*", "lock:", "order:é世界🔒", "ORDER:É",
		strings.Repeat("x", 100_000),
	}
	for _, name := range names {
		k, err := a.tryLock(ctx, name, lease)
		t.returns(err, "TryLock", success)
		t.leased("lock:"+name, lease)
		_, err = b.tryLock(ctx, name, lease)
		t.returns(err, "B's TryLock", taken)
		t.want(k != nil && k.Key() == name, "the handle has another key", name)
		defer func() {
			t.returns(unlock(ctx, k), "Unlock", success)
			t.free("lock:" + name)
		}()
	}
	n := len(t.Truth().Keys(ctx, "lock:*").Val()) // chapter 7 counts grants in other keys
	t.want(n == len(names), "two names share a lock", n)
}
