// Package spotthebug is lock code with slips, for docs/spot-the-bug.md: each piece is small, looks right, and has one
// slip that has been in a published text or library. Beside it stands the mended form. The tests show that the
// slip breaks its promise and that the mended form keeps it.
//
// Do not lift anything from here. The locks to lift are in the numbered chapters.
package spotthebug

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const ttl = 30 * time.Second

var (
	errTaken   = errors.New("somebody else holds the lock")
	errExpired = errors.New("the key is gone")
	errStolen  = errors.New("the key belongs to another acquisition")
	errLost    = errors.New("the lock is lost")
)

const releaseScript = `-- release: 1 deleted, 0 the key is gone, -1 it belongs to somebody else
local owner = redis.call('GET', KEYS[1])
if not owner then return 0 end
if owner ~= ARGV[1] then return -1 end
return redis.call('DEL', KEYS[1])`

const extendScript = `-- extend: 1 done, 0 it is not ours
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`

// take takes the lock for the TTL, if it is free.
func take(ctx context.Context, rdb redis.UniversalClient, key, token string) (bool, error) {
	err := rdb.Do(ctx, "SET", key, token, "NX", "PX", ttl.Milliseconds()).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

// renew makes the lease last for the TTL from now, and reports whether it is ours.
func renew(ctx context.Context, rdb redis.UniversalClient, key, token string) (bool, error) {
	done, err := rdb.Eval(ctx, extendScript, []string{key}, token, ttl.Milliseconds()).Int()
	return done == 1, err
}

func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
