package redistest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/wire"
)

var named = wire.Named

// once makes a client send each command a single time, so that a test sees the first error.
func once(o *redis.Options) { o.MaxRetries = -1 }

// network is a server, a proxy to it and a look behind the proxy.
func network(t *testing.T) (*Server, *Proxy, *redis.Client) {
	t.Helper()
	s := Start(t)
	return s, NewProxy(t, s.Addr()), s.Client(t)
}

func TestProxyPassesEverythingOn(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	const clients, rounds, each = 4, 5, 300
	var wg sync.WaitGroup
	for range clients {
		c := p.Client(t)
		wg.Go(func() {
			for range rounds {
				_, err := c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
					for range each {
						pipe.Incr(ctx, "n")
					}
					return nil
				})
				if err != nil {
					t.Errorf("pipeline: %v", err)
				}
			}
		})
	}
	wg.Wait()
	n, err := truth.Get(ctx, "n").Int()
	require.NoError(t, err)
	require.Equal(t, clients*rounds*each, n)
	require.Len(t, p.Requests(), n)
}

func TestRequests(t *testing.T) {
	ctx := t.Context()
	_, p, _ := network(t)
	c := p.Client(t)
	require.NoError(t, c.Ping(ctx).Err())
	require.Empty(t, p.Requests(), "set-up is left out")
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())
	require.NoError(t, c.Eval(ctx, "-- release: if it is mine\nreturn 1", []string{"k"}).Err())
	_, err := c.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Del(ctx, "k").Err() })
	require.NoError(t, err)
	require.Equal(t, []string{"SET", "release", "MULTI", "DEL", "EXEC"}, p.Requests())
	p.ResetRequests()
	require.Empty(t, p.Requests())
}

func TestLoseReply(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	p.LoseReply(named("SET"), 1)

	taken, err := p.Client(t, once).SetNX(ctx, "k", "mine", 0).Result()
	require.ErrorIs(t, err, io.EOF)
	require.False(t, taken)
	require.Equal(t, "mine", truth.Get(ctx, "k").Val(), "it was executed")
	require.Equal(t, []string{"SET"}, p.Requests())
}

// With default options go-redis sends the command again and reports its own success as "taken".
func TestLoseReplyAgainstTheRetriesOfTheClient(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	p.LoseReply(named("SET"), 2)
	c := p.Client(t)

	ok, err := c.SetNX(ctx, "k", "mine", 0).Result()
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, "mine", truth.Get(ctx, "k").Val())
	require.Equal(t, []string{"SET", "SET", "SET"}, p.Requests(), "two lost, the third answered")

	require.NoError(t, c.SetNX(ctx, "other", "mine", 0).Err())
	require.Len(t, p.Requests(), 4, "the fault is used up")
}

func TestLoseReplyOfATransaction(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	p.LoseReply(named("EXEC"), 1)
	_, err := p.Client(t, once).TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		return pipe.Set(ctx, "k", "v", 0).Err()
	})
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "v", truth.Get(ctx, "k").Val())
}

func TestLoseRequest(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	p.LoseRequest(named("SET"), 1)
	c := p.Client(t, once)

	require.ErrorIs(t, c.Set(ctx, "k", "v", 0).Err(), io.EOF)
	require.ErrorIs(t, truth.Get(ctx, "k").Err(), redis.Nil, "it never arrived")
	require.Equal(t, []string{"SET"}, p.Requests())
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())
	require.Equal(t, "v", truth.Get(ctx, "k").Val())
}

// A loss in the middle of a pipeline: what came before is answered, what comes after never arrives. The
// test speaks for itself because go-redis gives the error to all commands of a pipeline.
func TestLossInAPipeline(t *testing.T) {
	for name, test := range map[string]struct {
		lose     func(*Proxy, wire.Match, int)
		executed int64
	}{
		"reply":   {(*Proxy).LoseReply, 1},
		"request": {(*Proxy).LoseRequest, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			_, p, truth := network(t)
			test.lose(p, named("INCR"), 1)
			raw, err := net.Dial("tcp", p.Addr())
			require.NoError(t, err)
			defer raw.Close()
			_, err = raw.Write([]byte(request("SET", "before", "1") + request("INCR", "n") + request("SET", "after", "1")))
			require.NoError(t, err)

			require.NoError(t, raw.SetReadDeadline(time.Now().Add(patience)))
			got, err := io.ReadAll(raw)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is broken")
			require.Equal(t, "+OK\r\n", string(got))
			require.EqualValues(t, 1, truth.Exists(ctx, "before").Val())
			require.Equal(t, test.executed, truth.Exists(ctx, "n").Val())
			require.Zero(t, truth.Exists(ctx, "after").Val())
		})
	}
}

func request(words ...string) string {
	s := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		s += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	return s
}

func TestHoldRequestForAPatientClient(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	c := p.Client(t, once)
	h := p.HoldRequest(named("SET"))
	got := later(func() error { return c.Set(ctx, "k", "v", 0).Err() })

	within(t, h.Caught())
	require.ErrorIs(t, truth.Get(ctx, "k").Err(), redis.Nil)
	require.Empty(t, got, "the client waits")
	h.Deliver()
	require.Equal(t, "v", truth.Get(ctx, "k").Val(), "executed when Deliver returns")
	require.NoError(t, <-got)
	h.Deliver() // no harm done
	require.NoError(t, c.Set(ctx, "k", "w", 0).Err(), "only the next request was meant")
}

func TestHoldRequestLandsLate(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	h := p.HoldRequest(named("SET"))
	c := p.Client(t, once)
	got := later(func() error { return c.Set(ctx, "k", "late", 0).Err() })

	within(t, h.Caught())
	require.NoError(t, c.Close()) // a timeout closes the connection just like that
	require.Error(t, <-got)
	require.ErrorIs(t, truth.Get(ctx, "k").Err(), redis.Nil)
	h.Deliver()
	require.Equal(t, "late", truth.Get(ctx, "k").Val())
}

func TestHoldReply(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	h := p.HoldReply(named("SET"))
	c := p.Client(t, once)
	got := later(func() error { return c.Set(ctx, "k", "v", 0).Err() })

	within(t, h.Caught())
	require.Equal(t, "v", truth.Get(ctx, "k").Val(), "executed at once")
	require.Empty(t, got, "the client waits")
	h.Deliver()
	require.NoError(t, <-got)
}

func TestHoldReplyForAClientThatHasLeft(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	h := p.HoldReply(named("INCR"))
	c := p.Client(t, once)
	got := later(func() error { return c.Incr(ctx, "n").Err() })
	within(t, h.Caught())
	require.NoError(t, c.Close())
	require.Error(t, <-got)
	h.Deliver()
	require.Equal(t, "1", truth.Get(ctx, "n").Val())
	require.Eventually(t, func() bool { return p.open() == 0 }, patience, pollEach)
}

func TestHeldReplyKeepsTheOrderOfAPipeline(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	h := p.HoldReply(named("SET"))
	pipe := p.Client(t, once).Pipeline()
	set, incr := pipe.Set(ctx, "k", "v", 0), pipe.Incr(ctx, "n")
	got := later(func() error { _, err := pipe.Exec(ctx); return err })

	within(t, h.Caught())
	require.Eventually(t, func() bool { return truth.Get(ctx, "n").Val() == "1" }, patience, pollEach, "the next one is executed")
	require.Empty(t, got)
	h.Deliver()
	require.NoError(t, <-got)
	require.Equal(t, "OK", set.Val())
	require.EqualValues(t, 1, incr.Val())
}

func TestDeliverFailsTheTestIfItCannot(t *testing.T) {
	ctx := t.Context()
	s, p, _ := network(t)
	r := &recorder{TB: t}
	p.t = r

	h := p.HoldRequest(named("SET"))
	c := p.Client(t, once)
	got := later(func() error { return c.Set(ctx, "k", "v", 0).Err() })
	within(t, h.Caught())
	s.Kill()
	require.ErrorIs(t, <-got, io.EOF)
	h.Deliver()
	require.Equal(t, "error: redistest: Deliver: the server has not answered the request", r.text)

	r.text, p.patience = "", time.Millisecond
	p.HoldReply(named("GET")).Deliver()
	require.Equal(t, "error: redistest: Deliver: nothing was caught within 1ms", r.text)
}

func TestDelay(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	c := p.Client(t, once)
	require.NoError(t, c.Ping(ctx).Err())

	// Far longer than the test may take: the reply must not come, and not keep the proxy from ending.
	stop := p.Delay(named("SET"), time.Hour)
	got := later(func() error { return c.Set(context.Background(), "k", "v", 0).Err() })
	require.Eventually(t, func() bool { return truth.Get(ctx, "k").Val() == "v" }, patience, pollEach, "executed at once")
	require.NoError(t, c.Get(ctx, "k").Err(), "other requests are not delayed")
	require.Empty(t, got)
	stop()
	require.NoError(t, c.Set(ctx, "k", "w", 0).Err())

	const d = 30 * time.Millisecond
	stop = p.Delay(named("SET"), d)
	start := time.Now()
	require.NoError(t, c.Set(ctx, "k", "x", 0).Err())
	require.NoError(t, c.Set(ctx, "k", "y", 0).Err())
	require.GreaterOrEqual(t, time.Since(start), 2*d, "each one is delayed")
	stop()
}

func TestDelayComesOnTopOfAFault(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	const d = 30 * time.Millisecond
	p.Delay(wire.Any, d)
	p.LoseReply(named("SET"), 1)
	p.ReplyError(named("DEL"), "OOM no", 1)
	c := p.Client(t, once)

	start := time.Now()
	require.ErrorIs(t, c.Set(ctx, "k", "v", 0).Err(), io.EOF)
	require.GreaterOrEqual(t, time.Since(start), d)
	start = time.Now()
	require.EqualError(t, c.Del(ctx, "k").Err(), "OOM no")
	require.GreaterOrEqual(t, time.Since(start), d)
	require.Equal(t, "v", truth.Get(ctx, "k").Val())
}

func TestCutAndHeal(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	c := p.Client(t, once)
	h := p.HoldRequest(named("SET"))
	got := later(func() error { return c.Set(ctx, "k", "late", 0).Err() })
	within(t, h.Caught())

	p.Cut()
	require.ErrorIs(t, <-got, io.EOF, "the client that waits learns of it at once")
	require.Error(t, c.Ping(ctx).Err(), "no new connection either")
	require.Error(t, p.Client(t, once).Get(ctx, "k").Err())
	require.Equal(t, []string{"SET"}, p.Requests())
	require.ErrorIs(t, truth.Get(ctx, "k").Err(), redis.Nil)
	h.Deliver()
	require.Equal(t, "late", truth.Get(ctx, "k").Val(), "it was in the network already")

	p.Heal()
	require.NoError(t, c.Ping(ctx).Err())
	require.Equal(t, "late", c.Get(ctx, "k").Val())
}

func TestReplyError(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	p.ReplyError(named("SET"), "OOM command not allowed", 2)
	c := p.Client(t, once)

	require.EqualError(t, c.Set(ctx, "k", "v", 0).Err(), "OOM command not allowed")
	pipe := c.Pipeline()
	before, refused, after := pipe.Incr(ctx, "n"), pipe.Set(ctx, "k", "v", 0), pipe.Incr(ctx, "n")
	_, err := pipe.Exec(ctx)
	require.EqualError(t, err, "OOM command not allowed")
	require.EqualValues(t, 1, before.Val())
	require.Error(t, refused.Err())
	require.EqualValues(t, 2, after.Val(), "the connection goes on, in order")
	require.ErrorIs(t, truth.Get(ctx, "k").Err(), redis.Nil)
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err(), "the fault is used up")
	require.EqualValues(t, 1, c.PoolStats().TotalConns)
}

func TestSetupIsLeftAlone(t *testing.T) {
	ctx := t.Context()
	_, p, _ := network(t)
	everything := func([]string) bool { return true }
	p.LoseRequest(everything, 1)
	p.LoseReply(everything, 1)
	p.ReplyError(everything, "ERR no", 1)
	h := p.HoldRequest(everything)
	p.Delay(everything, time.Hour)
	require.NoError(t, p.Client(t, once).Ping(ctx).Err())
	require.Empty(t, p.Requests())
	select {
	case <-h.Caught():
		t.Fatal("a PING was held")
	default:
	}
}

func TestFaultsTakeTurnsOverAllConnections(t *testing.T) {
	ctx := t.Context()
	_, p, _ := network(t)
	for i := range 3 {
		p.ReplyError(named("GET"), fmt.Sprintf("ERR %d", i), 2)
	}
	p.ReplyError(named("GET"), "ERR never", 0)
	var got []string
	for range 6 {
		got = append(got, p.Client(t, once).Get(ctx, "k").Err().Error())
	}
	require.Equal(t, []string{"ERR 0", "ERR 0", "ERR 1", "ERR 1", "ERR 2", "ERR 2"}, got)
	require.ErrorIs(t, p.Client(t, once).Get(ctx, "k").Err(), redis.Nil)
}

// A client's idle connection ends with the server, as it would without the proxy. Otherwise its next
// command would fail on a connection that has long been dead.
func TestIdleConnectionEndsWithTheServer(t *testing.T) {
	ctx := t.Context()
	s, p, _ := network(t)
	raw, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer raw.Close()
	c := p.Client(t, once)
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())

	s.Kill()
	require.NoError(t, raw.SetReadDeadline(time.Now().Add(patience)))
	_, err = raw.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Eventually(t, func() bool { return p.open() == 0 }, patience, pollEach)
	s.Restart(t)
	require.ErrorIs(t, c.Get(ctx, "k").Err(), redis.Nil)
}

// A server that hangs executes what it was sent once it goes on, also for a client that has left.
func TestPausedServerBehindTheProxy(t *testing.T) {
	ctx := t.Context()
	s, p, truth := network(t)
	c := p.Client(t, once)
	require.NoError(t, c.Ping(ctx).Err())
	s.Pause()
	got := later(func() error { return c.Set(ctx, "k", "late", 0).Err() })
	require.Eventually(t, func() bool { return len(p.Requests()) == 1 }, patience, pollEach)
	require.NoError(t, c.Close())
	require.Error(t, <-got)
	s.Resume()
	require.Eventually(t, func() bool { return truth.Get(ctx, "k").Val() == "late" }, patience, pollEach)
	require.Eventually(t, func() bool { return p.open() == 0 }, patience, pollEach)
}

func TestMatchesLookAtAllWords(t *testing.T) {
	ctx := t.Context()
	_, p, truth := network(t)
	p.LoseRequest(func(words []string) bool { return slices.Contains(words, "k2") }, 1)
	c := p.Client(t, once)
	require.NoError(t, c.Set(ctx, "k1", "v", 0).Err())
	require.Error(t, c.Set(ctx, "k2", "v", 0).Err())
	require.EqualValues(t, 1, truth.DBSize(ctx).Val())
}

// open is how many clients are connected.
func (p *Proxy) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.clients)
}

func later(f func() error) <-chan error {
	got := make(chan error, 1)
	go func() { got <- f() }()
	return got
}
