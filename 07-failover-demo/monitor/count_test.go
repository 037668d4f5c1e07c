package monitor_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	watchdog "example.com/redislock/04-watchdog"
	monitor "example.com/redislock/07-failover-demo/monitor"
	"example.com/redislock/internal/redistest"
	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// The monitor's numbers are those of a real server that counts for itself: Redis says how often it has executed SET, PTTL,
// PEXPIRE and DEL inside the scripts, and a proxy in between which scripts came by.
func TestNumbersAgreeWithTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	rdb := proxy.Client(t)
	m := monitor.New()
	rdb.AddHook(m.Hook("redis"))
	locks := monitor.Wrap(m, "orders", watchdog.New(rdb, watchdog.WithRenewEvery(20*time.Millisecond)), errs04)

	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for j := range 6 {
				call := locks.Lock
				if (i+j)%3 == 0 {
					call = locks.TryLock
				}
				if k, err := call(ctx, "order:1", lease); err == nil {
					time.Sleep(time.Duration(j) * 10 * time.Millisecond) // work, some of it long enough to be renewed
					if err := k.Unlock(ctx); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	callers.Wait()

	n, calls := read(t, m), commandStats(t, server)
	command := func(name, outcome string) int {
		return int(n.of("commands_total", fmt.Sprintf("command=%q", name), fmt.Sprintf("outcome=%q", outcome)))
	}
	require.Equal(t, calls["set"], command("acquire", "done")+command("acquire", "foreign"))
	require.Equal(t, calls["pttl"], command("acquire", "foreign"))
	require.Equal(t, calls["pexpire"], command("extend", "done"))
	require.Equal(t, calls["del"], command("release", "done"))
	for _, name := range []string{"acquire", "extend", "release"} {
		never := command(name, "cancelled") // sent: an Unlock overtook the renewal
		require.Equal(t, count(proxy.Requests(), name), int(n.of("commands_total", fmt.Sprintf("command=%q", name)))-never, name)
	}

	require.Equal(t, calls["set"]-calls["pttl"], int(n.of("attempts_total", `outcome="acquired"`)))
	require.Equal(t, calls["del"], int(n.of("unlocks_total", `outcome="released"`)))
	require.Equal(t, 48, int(n.of("attempts_total")))
	require.Equal(t, calls["del"], int(n.of("hold_seconds_count")))
	require.Zero(t, n.of("held"))
	require.Zero(t, n.of("leases_lost_total"))
	for name, min := range map[string]float64{`outcome="acquired"`: 10, `outcome="taken"`: 1} {
		require.GreaterOrEqual(t, n.of("attempts_total", name), min, "too little happened to prove anything")
	}
	require.Positive(t, calls["pexpire"], "nothing was renewed")
}

// commandStats are the calls that the server has counted, by command. Those inside scripts are among them.
func commandStats(t *testing.T, server *redistest.Server) map[string]int {
	info, err := server.Client(t).Info(ctx, "commandstats").Result()
	require.NoError(t, err)
	calls := map[string]int{}
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if number, _, more := strings.Cut(rest, ","); ok && more {
			calls[name], err = strconv.Atoi(number)
			require.NoError(t, err)
		}
	}
	return calls
}

func count(all []string, name string) (n int) {
	for _, one := range all {
		if one == name {
			n++
		}
	}
	return n
}

// With replies lost on the way, the node has executed more than the lock's calls say: the monitor counts calls and what their
// callers learned, as the history does.
func TestNumbersAgreeWithTheHistory(t *testing.T) {
	var n numbers
	h := sim.Run(t, func(w *sim.World) {
		s := &scene{World: w, t: t, node: w.Node("Redis"), m: monitor.New()}
		a, b := s.with04("A"), s.with04("B")
		a.LoseReply(wire.Acquires, 1)
		a.lock() // executed twice, acquired once
		s.At(5 * time.Second)
		b.lock()
		s.At(22 * time.Second)
		a.LoseReply(wire.Releases, 1)
		a.unlock() // executed twice: deleted, and then nothing to delete
		s.At(25 * time.Second)
		b.lock()
		s.At(40 * time.Second)
		b.unlock()
		s.At(60 * time.Second)
		n = read(t, s.m)
	})
	executed := func(name, reply string) (times int) {
		for _, e := range h.Events {
			if e.Kind == sim.Command && e.Text == name && (reply == "" || strings.TrimSuffix(e.Reply, ", lost") == reply) {
				times++
			}
		}
		return times
	}
	require.Equal(t, 3, executed("acquire", "OK"))
	require.Equal(t, 2, int(n.of("attempts_total", `outcome="acquired"`)))
	require.Equal(t, 2, int(n.of("commands_total", `command="acquire"`, `outcome="done"`)))
	require.Equal(t, 1, int(n.of("commands_total", `command="acquire"`, `outcome="no_connection"`)))
	require.Equal(t, executed("acquire", ""), int(n.of("commands_total", `command="acquire"`)))
	require.Equal(t, 1, int(n.of("attempts_total", `outcome="timeout"`)))

	require.Equal(t, executed("extend", "1"), int(n.of("commands_total", `command="extend"`, `outcome="done"`)))
	require.Positive(t, executed("extend", "1"))

	require.Equal(t, 1, executed("release", "0"))
	require.Equal(t, 2, executed("release", "1"))
	require.Equal(t, 2, int(n.of("unlocks_total", `outcome="released"`)), "the second reply was understood")
	require.Equal(t, executed("release", ""), int(n.of("commands_total", `command="release"`)))
}
