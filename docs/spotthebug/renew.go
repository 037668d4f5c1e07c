package spotthebug

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// renewLease makes the lease last for the TTL from now.
func renewLease(ctx context.Context, rdb redis.UniversalClient, key string) (bool, error) {
	return rdb.PExpire(ctx, key, ttl).Result()
}

// extendUntil makes the lease last until the given time, and reports whether it does.
func extendUntil(ctx context.Context, rdb redis.UniversalClient, key, token string, end time.Time) (bool, error) {
	left := time.Until(end)
	done, err := rdb.Eval(ctx, extendScript, []string{key}, token, left.Milliseconds()).Int()
	return done == 1, err
}

// extendUntilMended refuses an end that has passed, before anything is sent.
func extendUntilMended(ctx context.Context, rdb redis.UniversalClient, key, token string, end time.Time) (bool, error) {
	left := time.Until(end)
	if left < time.Millisecond {
		return false, fmt.Errorf("nothing left to extend: the end was %v ago", -left)
	}
	done, err := rdb.Eval(ctx, extendScript, []string{key}, token, left.Milliseconds()).Int()
	return done == 1, err
}

// leaseUntil renews the lease and says until when it lasts.
func leaseUntil(ctx context.Context, rdb redis.UniversalClient, key, token string) (time.Time, error) {
	ours, err := renew(ctx, rdb, key, token)
	if err == nil && !ours {
		err = errLost
	}
	return time.Now().Add(ttl), err
}

// leaseUntilMended counts from before the request: the server can't have started earlier.
func leaseUntilMended(ctx context.Context, rdb redis.UniversalClient, key, token string) (time.Time, error) {
	sent := time.Now()
	ours, err := renew(ctx, rdb, key, token)
	if err == nil && !ours {
		err = errLost
	}
	return sent.Add(ttl - ttl/100), err
}

// keepAlive renews the lease every third of the TTL, until ctx ends.
func keepAlive(ctx context.Context, rdb redis.UniversalClient, key, token string) {
	tick := time.NewTicker(ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if ours, err := renew(ctx, rdb, key, token); err != nil || !ours {
				log.Printf("lock %s was not renewed: %v", key, err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// keepAliveMended also tells the work: at once if the lock is another's, and before the lease can end if there is no answer.
func keepAliveMended(ctx context.Context, rdb redis.UniversalClient, key, token string, lost context.CancelCauseFunc) {
	expiry := time.AfterFunc(ttl-ttl/100, func() { lost(errLost) })
	defer expiry.Stop()
	tick := time.NewTicker(ttl / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			sent := time.Now()
			ours, err := renew(ctx, rdb, key, token)
			switch {
			case err != nil: // unknown: the lease runs on, and so does its timer
			case ours:
				expiry.Reset(time.Until(sent.Add(ttl - ttl/100)))
			default:
				lost(errLost)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// watchdogs keeps the leases of this process alive. stop says how each renewal is ended, by the key of its lock.
type watchdogs struct {
	rdb  redis.UniversalClient
	mu   sync.Mutex
	stop map[string]context.CancelFunc
}

func (d *watchdogs) start(key, token string) {
	ctx, cancel := context.WithCancel(context.Background())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop[key] = cancel
	go keepAlive(ctx, d.rdb, key, token)
}

func (d *watchdogs) end(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cancel := d.stop[key]; cancel != nil {
		cancel()
		delete(d.stop, key)
	}
}

// startMended gives the renewal's end to the one acquisition that it belongs to. There is no list to look it up in.
func startMended(rdb redis.UniversalClient, key, token string) (end context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go keepAlive(ctx, rdb, key, token)
	return cancel
}
