package story

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/redislock/internal/sim"
)

// naiveRenewals are locks whose renewal has one mistake each, and what an exploration finds of it. The first has none, so
// that the mistakes are what makes the difference. What needs one renewal to show up is given one, and no more.
var naiveRenewals = []struct {
	name     string
	lock     naive
	renewals int
	finds    []sim.Verdict
}{
	{"a renewal as it should be", naive{extend: compareAndExtend}, 2, nil},
	{"renewal without owner check", naive{extend: `-- extend: whoever has it
		return redis.call('PEXPIRE', KEYS[1], ARGV[2])`}, 2, []sim.Verdict{sim.RenewedOthers}},
	{"renewal by SET", naive{extend: `-- extend: whatever is there
		redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
		return 1`}, 1, []sim.Verdict{sim.Revived, sim.RenewedOthers}},
	{"renewal that tells nobody", naive{extend: compareAndExtend, untold: true}, 1, []sim.Verdict{sim.OutlivesKey}},
	{"renewal that ends after the release", naive{extend: compareAndExtend, stopLate: true}, 1, []sim.Verdict{sim.RenewsLate}},
}

// ExploreNaiveRenewals shows that an exploration finds what is wrong with a renewal, and nothing where nothing is.
func ExploreNaiveRenewals(t *testing.T) {
	if sim.RaceDetector {
		t.Skip("too slow under the race detector, and of interest only for what it finds")
	}
	for _, n := range naiveRenewals {
		t.Run(n.name, func(t *testing.T) {
			ch := Chapter{Dir: n.name, ErrNotAcquired: errNaiveTaken, ErrNotHeld: errNaiveGone, ErrExpired: errNaiveGone, ErrStolen: errNaiveGone}
			ch.New = one(func(rdb redis.UniversalClient) Locker { return &naiveLocker{naive: n.lock, rdb: rdb} })
			explore(t, ch, Bounds{Clients: "AB", Renewals: n.renewals}, n.finds...)
		})
	}
}

const compareAndExtend = `-- extend: mine only
	if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
	return redis.call('PEXPIRE', KEYS[1], ARGV[2])`

const compareAndDelete = `-- release: mine only
	if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
	return redis.call('DEL', KEYS[1])`

var (
	errNaiveTaken = errors.New("somebody else has it")
	errNaiveGone  = errors.New("it is gone, or another's")
)

// naive is what can be wrong with a renewal.
type naive struct {
	extend   string // the script
	stopLate bool   // the renewal ends after the release, not before
	untold   bool   // nobody is told that the lease has ended
}

type naiveLocker struct {
	naive
	rdb redis.UniversalClient
}

type naiveLock struct {
	*naiveLocker
	key, token string
	ctx        context.Context
	end        context.CancelCauseFunc
}

func (l *naiveLocker) TryLock(ctx context.Context, key string, ttl time.Duration) (Lock, error) {
	var random [16]byte
	_, _ = rand.Read(random[:])
	k := &naiveLock{naiveLocker: l, key: key, token: hex.EncodeToString(random[:])}
	k.ctx, k.end = context.WithCancelCause(context.WithoutCancel(ctx))
	sent := time.Now()
	switch err := l.rdb.SetArgs(ctx, "lock:"+key, k.token, redis.SetArgs{Mode: "NX", TTL: ttl}).Err(); err {
	case nil:
		go k.keep(sent, ttl)
		return k, nil
	case redis.Nil:
		return nil, errNaiveTaken
	default:
		return nil, err
	}
}

func (l *naiveLocker) Lock(ctx context.Context, key string, ttl time.Duration) (Lock, error) {
	return l.TryLock(ctx, key, ttl)
}

// keep renews the lease, a request at a time, and ends it a second before the key can end.
func (k *naiveLock) keep(sent time.Time, ttl time.Duration) {
	deadline := time.NewTimer(time.Until(sent.Add(ttl - time.Second)))
	next := time.NewTimer(ttl / 3)
	answers := make(chan bool, 1)
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-deadline.C:
			k.lose()
		case <-next.C:
			sent = time.Now()
			go func() {
				n, err := k.rdb.Eval(k.ctx, k.extend, []string{"lock:" + k.key}, k.token, ttl.Milliseconds()).Int()
				answers <- err == nil && n == 1
			}()
		case renewed := <-answers:
			if !renewed {
				k.lose()
				continue
			}
			deadline.Reset(time.Until(sent.Add(ttl - time.Second)))
			next.Reset(ttl / 3)
		}
	}
}

func (k *naiveLock) lose() {
	if !k.untold {
		k.end(errNaiveGone)
	}
}

func (k *naiveLock) Unlock(ctx context.Context) error {
	if !k.stopLate {
		k.end(nil)
	}
	n, err := k.rdb.Eval(ctx, compareAndDelete, []string{"lock:" + k.key}, k.token).Int()
	k.end(nil)
	if err == nil && n == 0 {
		err = errNaiveGone
	}
	return err
}

func (k *naiveLock) Key() string { return k.key }

func (k *naiveLock) Context() context.Context { return k.ctx }
