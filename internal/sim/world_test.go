package sim

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/wire"
)

// A key lives until the very instant at which its TTL ends, and that instant stands in the history.
func TestExpiryIsExact(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		w.At(s)
		take(w.Client("A", n), "k", 1)
		w.At(31*s - time.Millisecond)
		require.Equal(t, time.Millisecond, n.TTL("k"))
		w.At(31 * s)
		require.Empty(t, n.Value("k"))
		w.At(time.Minute)
		w.Record(Event{Kind: Call, Text: "a minute has passed"})
	})
	require.Equal(t, []string{"31s Redis: TTL ends", "1m0s : a minute has passed"}, texts(h, Expire, Call))
}

// Keys of several nodes end in the order of time, and at one instant in the order of nodes.
func TestExpiriesAreInOrder(t *testing.T) {
	h := Run(t, func(w *World) {
		n, o := w.Node("N"), w.Node("O")
		a := w.Client("A", n)
		second := a.Connect(o)
		a.Do(func() {
			a.Redis().Set(ctx, "k", "1", 3*s)
			a.Redis().Set(ctx, "j", "1", 2*s)
			second.Set(ctx, "k", "1", 2*s)
			second.Set(ctx, "i", "1", s)
		})
		w.At(time.Minute)
	})
	var keys []string
	for _, e := range h.Events {
		if e.Kind == Expire {
			keys = append(keys, e.Node+" "+e.Key)
		}
	}
	require.Equal(t, []string{"O i", "N j", "O k", "N k"}, keys)
}

// A random token is called after the client that sent it first, wherever it shows up.
func TestTokenLabels(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		a, b := w.Client("A", n), w.Client("AB", n)
		take(a, "k", 1)
		take(b, "k", 2)
		take(a, "j", 3)
		look(b, "j")
		b.Do(func() {
			b.Redis().Do(ctx, "DELEX", "k", "IFEQ", tokenOf(2))
			b.Redis().HSet(ctx, "h", "owner:"+tokenOf(1), 1)
			b.Redis().HGetAll(ctx, "h")
			b.Redis().Eval(ctx, "return {ARGV[1], 7, {'x'}, false}", []string{"k"}, tokenOf(2))
			b.Redis().Eval(ctx, "-- peek: a look\nreturn ARGV[1]", []string{"k"}, tokenOf(3))
			b.Redis().Get(ctx, "none")
			b.Redis().Ping(ctx)
			b.Redis().DBSize(ctx)
		})
	})
	require.Equal(t, []string{
		"0s ARedis: SET NX PX 30000 OK",
		"0s ABRedis: SET NX PX 30000 nil",
		"0s ARedis: SET NX PX 30000 OK",
		"0s ABRedis: GET A's token 2",
		"0s ABRedis: DELEX IFEQ AB's token 0",
		"0s ABRedis: HSET owner:A's token 1 1",
		"0s ABRedis: HGETALL [owner:A's token, 1]",
		"0s ABRedis: EVAL 1 k AB's token [AB's token, 7, [x], nil]",
		"0s ABRedis: peek A's token 2",
		"0s ABRedis: GET nil",
		"0s ABRedis: DBSIZE 3",
	}, texts(h, Command))
}

// A key belongs to who put its present value there, and a client that only looks or renews does not take it over.
func TestOwners(t *testing.T) {
	var n *Node
	h := Run(t, func(w *World) {
		n = w.Node("Redis")
		a, b := w.Client("A", n), w.Client("B", n)
		rdb := b.Redis()
		take(a, "k", 1)
		take(b, "k", 2)
		look(b, "k")
		b.Do(func() { rdb.PExpire(ctx, "k", time.Minute) })
		b.Do(func() { rdb.Set(ctx, "k", tokenOf(2), time.Minute) })
		drop(a, "k")
		b.Do(func() { rdb.HSet(ctx, "k", "owner", tokenOf(2)) })
		a.Do(func() { a.Redis().HGet(ctx, "k", "owner") })
		a.Do(func() { a.Redis().HSet(ctx, "k", "owner", tokenOf(1)) })
		drop(a, "k")
	})
	var owners []string
	for _, e := range h.Events {
		owners = append(owners, e.Client+" "+e.Text+": "+e.Before+">"+e.After)
	}
	require.Equal(t, []string{
		"A SET NX PX 30000: >A", "B SET NX PX 30000: A>A", "B GET: A>A", "B PEXPIRE 60000: A>A", "B SET ex 60: A>B", "A DEL: B>",
		"B HSET owner B's token: >B", "A HGET owner: B>B", "A HSET owner A's token: B>A", "A DEL: A>",
	}, owners)
	require.Equal(t, Finding{DeletedOthers, 5, "A deletes at 0s the key that B has owned since 0s."}, Check(h))
}

// A pipeline is several commands, and a fault hits the one that it names.
func TestPipeline(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		a := w.Client("A", n)
		a.StopBefore(gets)
		a.Do(func() {
			_, err := a.Redis().Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, "k", "1", 0)
				p.Get(ctx, "k")
				return nil
			})
			require.NoError(t, err)
		})
		require.Equal(t, "1", n.Value("k"))
		w.At(s)
		a.GoOn()
	})
	require.Equal(t, []string{"0s ARedis: SET OK", "0s A: stops before GET", "1s A: goes on", "1s ARedis: GET 1"}, texts(h, Fault, Command))
}

// A resource is read and written by clients without any protection.
func TestResource(t *testing.T) {
	h := Run(t, func(w *World) {
		r := w.Resource("stock", 7)
		n := w.Node("Redis")
		a, b := w.Client("A", n), w.Client("B", n)
		require.Equal(t, 7, a.Read(r))
		require.Equal(t, 7, b.Read(r))
		b.Write(r, 6)
		a.Write(r, 6)
		require.Equal(t, 6, r.Value())
	})
	require.Equal(t, []string{"0s A: reads stock: 7", "0s B: reads stock: 7", "0s B: writes stock: 6", "0s A: writes stock: 6"}, texts(h, Read, Write))
	require.Equal(t, StaleWrite, Check(h).Verdict)
}

// The history lists who was there, and nothing that happens after the story's end.
func TestHistory(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		require.Equal(t, []*Node{n}, w.Nodes())
		a := w.Client("A", n)
		require.Equal(t, "A", a.Name())
		a.StopBefore(wire.Any)
		a.Do(func() {
			defer w.Record(Event{Kind: Call, Text: "after the end"})
			require.Error(t, a.Redis().Get(ctx, "k").Err())
		})
	})
	require.Equal(t, []string{"A"}, h.Clients)
	require.Equal(t, []string{"Redis"}, h.Nodes)
	require.Len(t, h.Events, 1)
}

// JSON loses nothing.
func TestJSON(t *testing.T) {
	h := richStory(t)
	var back History
	require.NoError(t, json.Unmarshal(h.JSON(), &back))
	require.Equal(t, h, &back)
}

// Wrong use ends the test with a message, instead of a hang or a panic.
func TestWrongUse(t *testing.T) {
	wrong := map[string]struct {
		story func(t *testing.T, w *World)
		says  string
	}{
		"back in time": {says: "the story is at 5s already, it can't go back to 1s",
			story: func(t *testing.T, w *World) { w.At(5 * s); w.At(s) }},
		"nothing late": {says: "A has no request on its way that could be delivered late",
			story: func(t *testing.T, w *World) { w.Client("A", w.Node("N")).DeliverLate(wire.Any).Deliver() }},
		"twice late": {says: "A has no request on its way that could be delivered late",
			story: func(t *testing.T, w *World) {
				a := w.Client("A", w.Node("N"))
				late := a.DeliverLate(gets)
				look(a, "k")
				late.Deliver()
				late.Deliver()
			}},
		"a schedule that leads nowhere": {says: `schedule A.C: step 2 can't be "C", only one of ["A" "B" "t"]`,
			story: func(t *testing.T, w *World) {}},
	}
	if name := os.Getenv("SIM_WRONG_USE"); name != "" {
		if name == "a schedule that leads nowhere" {
			Replay(t, toyPlan("AB", blindDelete), "A.C")
		}
		Run(t, func(w *World) { wrong[name].story(t, w) })
		return
	}
	for name, tt := range wrong {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestWrongUse$", "-test.timeout=20s")
			cmd.Env = append(os.Environ(), "SIM_WRONG_USE="+name)
			out, err := cmd.CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), tt.says)
			require.NotContains(t, string(out), "panic")
		})
	}
}
