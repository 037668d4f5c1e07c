package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/wire"
)

const s = time.Second

// A client that is stopped before a command has not sent it, and sends it when it goes on.
func TestStopBefore(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		a := w.Client("A", n)
		a.StopBefore(wire.Acquires)
		got := take(a, "k", 1)
		w.At(9 * s)
		require.False(t, got.done)
		require.Empty(t, n.Value("k"))
		a.GoOn()
		got.took(t, 9*s)
		require.Equal(t, tokenOf(1), n.Value("k"))
		require.Equal(t, ttl, n.TTL("k"))
	})
	require.Equal(t, []string{"0s A: stops before SET", "9s A: goes on", "9s ARedis: SET NX PX 30000 OK"}, texts(h, Fault, Command))
}

// A client that is stopped after a command has it executed, and learns the answer when it goes on.
func TestStopAfter(t *testing.T) {
	Run(t, func(w *World) {
		n := w.Node("Redis")
		a := w.Client("A", n)
		a.StopAfter(wire.Acquires)
		got := take(a, "k", 1)
		w.At(9 * s)
		require.False(t, got.done)
		require.Equal(t, tokenOf(1), n.Value("k"))
		a.GoOn()
		got.took(t, 9*s)
	})
}

// A stop that names a command lets all others pass, and happens once.
func TestStopsAtTheNamedCommandOnly(t *testing.T) {
	Run(t, func(w *World) {
		a := w.Client("A", w.Node("Redis"))
		a.StopBefore(wire.Named("DEL"))
		take(a, "k", 1).took(t, 0)
		got := drop(a, "k")
		require.False(t, got.done)
		w.At(s)
		a.GoOn()
		got.took(t, s)
		drop(a, "k").failedQuietly(t)
	})
}

func (a *attempt) failedQuietly(t *testing.T) {
	t.Helper()
	require.True(t, a.done)
	require.NoError(t, a.err)
	require.False(t, a.ok)
}

// A client that was not stopped takes no notice of GoOn and Thaw, and neither does the history.
func TestGoOnWithoutStop(t *testing.T) {
	h := Run(t, func(w *World) {
		a := w.Client("A", w.Node("Redis"))
		a.GoOn()
		a.Thaw()
		a.Crash()
		a.GoOn()
	})
	require.Equal(t, []string{"0s A: crashes"}, texts(h, Fault))
}

// Who crashes before a command has not sent it.
func TestCrashBefore(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		a := w.Client("A", n)
		a.CrashBefore(wire.Acquires)
		got := take(a, "k", 1)
		later := look(a, "k")
		w.At(time.Hour)
		require.False(t, got.done)
		require.False(t, later.done)
		require.Empty(t, n.Value("k"))
	})
	require.Equal(t, []string{"0s A: crashes"}, texts(h, Fault, Command))
}

// Who crashes after a command leaves its effect behind, and nothing else ever comes of it.
func TestCrashAfter(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		a := w.Client("A", n)
		a.CrashAfter(wire.Acquires)
		got := take(a, "k", 1)
		a.Do(func() { w.Record(Event{Kind: Leave, Client: "A"}) })
		w.At(10 * s)
		require.False(t, got.done)
		require.Equal(t, tokenOf(1), n.Value("k"))
		require.Equal(t, 20*s, n.TTL("k"))
		w.At(30 * s)
		require.Empty(t, n.Value("k"))
	})
	require.Equal(t, []string{"0s ARedis: SET NX PX 30000 OK", "0s A: crashes"}, texts(h, Fault, Command, Leave))
}

// A lost request never arrives; go-redis sends it again 100 ms later.
func TestLoseRequest(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		a, b := w.Client("A", n), w.Client("B", n, once)
		a.LoseRequest(wire.Acquires, 1)
		got := take(a, "k", 1)
		require.Empty(t, n.Value("k"))
		w.At(s)
		got.took(t, 100*time.Millisecond)
		require.Equal(t, tokenOf(1), n.Value("k"))
		b.LoseRequest(gets, 1)
		look(b, "k").failed(t, s, "EOF")
		require.Equal(t, tokenOf(1), look(b, "k").value)
	})
	require.Equal(t, []string{"0s A: SET is lost", "1s B: GET is lost"}, texts(h, Fault))
}

// A lost reply is a command that was executed. go-redis sends it again, and SET NX answers "taken" to its own key.
func TestLoseReply(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		a, b := w.Client("A", n), w.Client("B", n, once)
		a.LoseReply(wire.Acquires, 1)
		got := take(a, "k", 1)
		require.False(t, got.done)
		require.Equal(t, tokenOf(1), n.Value("k"))
		w.At(s)
		got.failedQuietly(t)
		require.Equal(t, 100*time.Millisecond, got.at)
		require.Equal(t, tokenOf(1), n.Value("k"))

		b.LoseReply(wire.Releases, 1)
		drop(b, "k").failed(t, s, "EOF")
		require.Empty(t, n.Value("k"))
	})
	require.Equal(t, []string{
		"0s ARedis: SET NX PX 30000 OK, lost", "100ms ARedis: SET NX PX 30000 nil", "1s BRedis: DEL 1, lost",
	}, texts(h, Command))
}

// A late request arrives after its client has given up, and counts all the same.
func TestDeliverLate(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		a := w.Client("A", n, once)
		late := a.DeliverLate(wire.Acquires)
		require.False(t, late.Caught())
		got := take(a, "k", 1)
		require.True(t, late.Caught())
		w.At(6 * s)
		got.failed(t, 5*s, "i/o timeout") // go-redis' ReadTimeout
		require.Empty(t, n.Value("k"))
		late.Deliver()
		require.Equal(t, tokenOf(1), n.Value("k"))
		require.Equal(t, tokenOf(1), look(a, "k").value, "the connection that timed out is not used again")
	})
	require.Equal(t, []string{
		"0s A: SET is still on its way", "6s A: late SET arrives", "6s ARedis: SET NX PX 30000 OK", "6s ARedis: GET A's token",
	}, texts(h, Fault, Command))
}

// A late request that comes before its client gives up is simply slow.
func TestDeliverNotTooLate(t *testing.T) {
	Run(t, func(w *World) {
		a := w.Client("A", w.Node("Redis"))
		late := a.DeliverLate(wire.Acquires)
		got := take(a, "k", 1)
		w.At(s)
		late.Deliver()
		got.took(t, s)
	})
}

// A late request whose node has died meanwhile is lost.
func TestDeliverToDeadNode(t *testing.T) {
	Run(t, func(w *World) {
		n := w.Node("Redis")
		a := w.Client("A", n, once)
		late := a.DeliverLate(wire.Acquires)
		got := take(a, "k", 1)
		w.At(s)
		n.Crash()
		w.At(2 * s)
		got.failed(t, s, "EOF")
		late.Deliver()
		require.Empty(t, n.Value("k"))
	})
}

// A frozen client sends nothing and reads nothing until it is thawed. What it is told to do waits.
func TestFreezeThaw(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		a := w.Client("A", n)
		take(a, "k", 1).took(t, 0)
		w.At(s)
		a.Freeze()
		w.At(2 * s)
		got := look(a, "k")
		a.Do(func() { w.Record(Event{Kind: Leave, Client: "A"}) })
		w.At(9 * s)
		require.False(t, got.done)
		a.Thaw()
		got.took(t, 9*s)
		require.Equal(t, tokenOf(1), got.value)
	})
	require.Equal(t, []string{
		"0s ARedis: SET NX PX 30000 OK", "1s A: freezes", "9s A: thaws", "9s ARedis: GET A's token", "9s A:",
	}, texts(h, Fault, Command, Leave))
}

// What the timers of a frozen client send leaves at the thaw, as long as go-redis would still write it.
func TestFrozenRequestLeavesAtTheThaw(t *testing.T) {
	for thaw, arrives := range map[time.Duration]bool{3 * s: true, 9 * s: false} {
		h := Run(t, func(w *World) {
			n := w.Node("Redis")
			a := w.Client("A", n, func(o *redis.Options) { o.WriteTimeout, o.MaxRetries = 5*s, -1 })
			take(a, "k", 1) // connect
			a.Then(func() {
				time.Sleep(2 * s)
				_, err := a.Redis().Get(ctx, "k").Result()
				require.Equal(t, arrives, err == nil)
			})
			w.At(s)
			a.Freeze()
			w.At(thaw)
			a.Thaw()
			w.At(time.Minute)
		})
		require.Equal(t, arrives, slices.Contains(texts(h, Command), "3s ARedis: GET A's token"))
	}
}

// A client that freezes while a reply is on its way reads it when it is thawed.
func TestFreezeWithReplyUnderWay(t *testing.T) {
	Run(t, func(w *World) {
		n := w.Node("Redis")
		a := w.Client("A", n)
		look(a, "k") // connect
		n.Hang()
		got := take(a, "k", 1)
		w.At(s)
		a.Freeze()
		n.Resume()
		require.Equal(t, tokenOf(1), n.Value("k"))
		w.At(3 * s)
		require.False(t, got.done)
		a.Thaw()
		got.took(t, 3*s)
	})
}

// A client that is cut off reaches nobody; healed, it does again. The node is not concerned.
func TestCutHeal(t *testing.T) {
	Run(t, func(w *World) {
		n := w.Node("Redis")
		a, b := w.Client("A", n), w.Client("B", n)
		take(a, "k", 1).took(t, 0)
		w.At(s)
		a.Cut()
		got := look(a, "k")
		require.True(t, look(b, "k").ok)
		w.At(9 * s)
		require.True(t, got.done)
		require.ErrorContains(t, got.err, "connection refused")
		a.Heal()
		look(a, "k").took(t, 9*s)
	})
}

// A node that refuses answers every command with its error and does nothing.
func TestRefuseAccept(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		a := w.Client("A", n, once)
		n.Refuse("OOM command not allowed when used memory > 'maxmemory'.")
		take(a, "k", 1).failed(t, 0, "OOM command not allowed")
		require.Empty(t, n.Value("k"))
		w.At(s)
		n.Accept()
		take(a, "k", 1).took(t, s)
		require.Equal(t, tokenOf(1), n.Value("k"))
	})
	require.Equal(t, Holds, Check(h).Verdict)
	require.Equal(t, "", h.Events[1].After)
}

// A hung node answers nothing. The client gives up, the request does not.
func TestHangResume(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		a := w.Client("A", n, once, func(o *redis.Options) { o.ReadTimeout = 200 * time.Millisecond })
		require.Error(t, look(a, "k").err) // connect
		n.Hang()
		got := take(a, "k", 1)
		w.At(s)
		got.failed(t, 200*time.Millisecond, "i/o timeout")
		require.Empty(t, n.Value("k"))
		n.Resume()
		require.Equal(t, tokenOf(1), n.Value("k"))
		require.Equal(t, ttl, n.TTL("k"))
		require.Equal(t, tokenOf(1), look(a, "k").value)
	})
	require.Equal(t, []string{
		"0s ARedis: GET nil", "0s Redis: hangs", "1s Redis: goes on", "1s ARedis: SET NX PX 30000 OK", "1s ARedis: GET A's token",
	}, texts(h, Fault, Command))
}

// What has arrived at a hung node dies with it.
func TestCrashWhileHung(t *testing.T) {
	for _, restart := range []bool{true, false} {
		Run(t, func(w *World) {
			n := w.Node("Redis")
			a := w.Client("A", n, once)
			n.Hang()
			got := take(a, "k", 1)
			w.At(s)
			if restart {
				n.Restart(true)
			} else {
				n.Crash()
			}
			w.At(9 * s)
			require.True(t, got.done)
			require.Error(t, got.err)
			require.Empty(t, n.Value("k"))
		})
	}
}

// A node comes back with its data or without, with TTLs that ran on meanwhile. Connections don't survive.
func TestNodeCrashRestart(t *testing.T) {
	for _, withData := range []bool{true, false} {
		h := Run(t, func(w *World) {
			n := w.Node("Redis")
			a := w.Client("A", n)
			take(a, "k", 1).took(t, 0)
			w.At(s)
			n.Crash()
			got := look(a, "k")
			w.At(10 * s)
			require.True(t, got.done)
			require.ErrorContains(t, got.err, "connection refused")
			n.Restart(withData)
			again := look(a, "k")
			require.True(t, again.done)
			if withData {
				require.Equal(t, tokenOf(1), again.value)
				require.Equal(t, 20*s, n.TTL("k"))
			} else {
				require.Equal(t, redis.Nil, again.err)
				require.Zero(t, n.TTL("k"))
			}
			w.At(40 * s)
		})
		if withData {
			require.Equal(t, []string{"30s Redis: TTL ends"}, texts(h, Expire))
		} else {
			require.Empty(t, texts(h, Expire))
		}
	}
}

// A restarted node knows no script that was loaded before.
func TestRestartForgetsScripts(t *testing.T) {
	Run(t, func(w *World) {
		n := w.Node("Redis")
		a := w.Client("A", n)
		script := redis.NewScript("return 1")
		a.Do(func() { require.NoError(t, script.Load(ctx, a.Redis()).Err()) })
		a.Do(func() { require.NoError(t, script.EvalSha(ctx, a.Redis(), nil).Err()) })
		n.Restart(true)
		var err error
		a.Do(func() { err = script.EvalSha(ctx, a.Redis(), nil).Err() })
		w.At(s)
		require.ErrorContains(t, err, "NOSCRIPT")
	})
}

// A clock that jumps forward shortens every TTL, and ends those that are shorter than the jump.
func TestJumpClockForward(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		a := w.Client("A", n)
		take(a, "k", 1)
		n.Set("forever", "x", 0)
		w.At(s)
		n.JumpClock(10 * s)
		require.Equal(t, 19*s, n.TTL("k"))
		require.Equal(t, Forever, n.TTL("forever"))
		w.At(20*s - time.Millisecond)
		require.Equal(t, tokenOf(1), n.Value("k"))
		w.At(20 * s)
		require.Empty(t, n.Value("k"))
		w.At(21 * s)
		take(a, "k", 2)
		w.At(22 * s)
		n.JumpClock(time.Minute)
		require.Empty(t, n.Value("k"))
		require.Equal(t, "x", n.Value("forever"))
	})
	require.Equal(t, []string{"20s Redis: TTL ends", "22s Redis: TTL ends"}, texts(h, Expire))
	require.Equal(t, []string{"0s Redis: set", "1s Redis: clock jumps by 10s", "22s Redis: clock jumps by 1m0s"}, texts(h, Fault))
}

// A clock that jumps back prolongs every TTL.
func TestJumpClockBack(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		take(w.Client("A", n), "k", 1)
		w.At(s)
		n.JumpClock(-10 * s)
		require.Equal(t, 39*s, n.TTL("k"))
		w.At(40*s - time.Millisecond)
		require.Equal(t, tokenOf(1), n.Value("k"))
		w.At(time.Minute)
		require.Empty(t, n.Value("k"))
	})
	require.Equal(t, []string{"40s Redis: TTL ends"}, texts(h, Expire))
}

// Delete and Set happen behind everybody's back, and the history knows whose key it was and is.
func TestDeleteSet(t *testing.T) {
	h := Run(t, func(w *World) {
		n := w.Node("Redis")
		a, b := w.Client("A", n), w.Client("B", n)
		take(a, "k", 1)
		w.At(s)
		n.Delete("k")
		require.Empty(t, n.Value("k"))
		w.At(2 * s)
		take(b, "k", 2).took(t, 2*s)
		w.At(3 * s)
		n.Set("k", "somebody else's", 0)
		w.At(time.Hour) // it has no TTL
		require.Equal(t, "somebody else's", look(a, "k").value)
		require.Equal(t, Forever, n.TTL("k"))
		n.Set("k", tokenOf(1), s)
		require.Equal(t, tokenOf(1), n.Value("k"))
		require.Equal(t, s, n.TTL("k"))
		w.At(2 * time.Hour)
		require.Zero(t, n.TTL("k"))
	})
	var owners []string
	for _, e := range h.Events {
		owners = append(owners, string(e.Kind)+" "+e.Before+">"+e.After)
	}
	require.Equal(t, []string{
		"command >A", "expire A>", "command >B", "fault B>stranger", "command stranger>stranger", "fault stranger>A", "expire A>",
	}, owners)
}

// Faults combine: a stop is not reported after a request that never arrived.
func TestStopAfterLostRequest(t *testing.T) {
	h := Run(t, func(w *World) {
		a := w.Client("A", w.Node("Redis"))
		a.LoseRequest(wire.Acquires, 1)
		a.StopAfter(wire.Acquires)
		got := take(a, "k", 1)
		w.At(s)
		require.False(t, got.done)
		a.GoOn()
		got.took(t, s)
	})
	require.Equal(t, []string{"0s A: SET is lost", "100ms A: stops after SET", "1s A: goes on"}, texts(h, Fault))
}

// Commands that would wait for somebody else are refused: a node in virtual time answers at once or never.
func TestWaitingCommandsAreRefused(t *testing.T) {
	Run(t, func(w *World) {
		a := w.Client("A", w.Node("Redis"), once)
		a.Do(func() {
			require.ErrorContains(t, a.Redis().BLPop(ctx, 0, "k").Err(), "a node in virtual time knows no BLPOP")
		})
	})
}
