package watchdog

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// W6: PEXPIRE with nothing left deletes the key and answers 1, which reads as "renewed". The script refuses, whoever calls it.
func TestScriptGuardsPEXPIRE(t *testing.T) {
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { require.NoError(t, rdb.Close()) }()
	require.NoError(t, server.Set("lock:x", "token"))
	for _, ttl := range []int{0, -1} {
		require.ErrorContains(t, rdb.Eval(context.Background(), extendScript, []string{"lock:x"}, "token", ttl).Err(), "at least a millisecond")
		require.True(t, server.Exists("lock:x"))
	}
}

// W3: a lease that is over when the answer comes never begins. Only a process that stands still between two lines of its own
// can get there, so this test looks inside.
func TestLeaseThatIsOverNeverBegins(t *testing.T) {
	h := &lease{locker: &Locker{}, ttl: time.Minute, late: forever}
	require.ErrorContains(t, h.begin(context.Background(), time.Now().Add(-time.Minute)), "after the lease")
	require.Nil(t, h.ctx)
}

// W1: nothing is sent for a lease that has ended, even if the renewer learns that in the very moment of its renewal.
func TestNothingIsSentForAnEndedLease(t *testing.T) {
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { require.NoError(t, rdb.Close()) }()
	k, err := New(rdb).TryLock(context.Background(), "order:1", time.Minute)
	require.NoError(t, err)
	require.NoError(t, k.Unlock(context.Background()))
	before := server.CommandCount()
	for range 100 {
		require.ErrorIs(t, k.lease.extend(context.Background(), time.Minute), ErrNotHeld)
	}
	require.Equal(t, before, server.CommandCount())
}

// W3: a timer that fires while a renewal moves the deadline, and comes second, ends nothing.
func TestTimerThatComesTooLate(t *testing.T) {
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { require.NoError(t, rdb.Close()) }()
	k, err := New(rdb).TryLock(context.Background(), "order:1", time.Minute)
	require.NoError(t, err)
	k.lease.expire()
	require.NoError(t, k.Context().Err())
	require.NoError(t, k.Unlock(context.Background()))
}

// A request whose time is over before it is sent has failed. It must not look like one that was answered with nothing.
func TestSendWithoutTime(t *testing.T) {
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { require.NoError(t, rdb.Close()) }()
	l := New(rdb)
	past, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	for range 100 {
		finished, err := l.send(past, time.Second, &once{Cmd: redis.NewCmd(past, "SET", "k", "v")})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, err.Error(), "no answer", "nobody had the time to give one")
		<-finished
		_, err = l.send(context.Background(), time.Nanosecond, &once{Cmd: redis.NewCmd(past, "SET", "k", "v")})
		require.ErrorContains(t, err, "no answer within 1ns")
	}
}
