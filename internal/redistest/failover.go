package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Group is a primary, its replica and three Sentinels that watch them.
//
// To lose an acknowledged write for certain: CutReplication, write, LosePrimary. To stop the replica would not be
// enough. What the primary sends it waits in the socket, and the replica reads it before it is promoted.
type Group struct {
	t                T
	Primary, Replica *Server
	sentinels        []string // addresses
}

// groupName is what the Sentinels call the primary.
const groupName = "locks"

// downAfter is how long the Sentinels miss a server before they call it down.
const downAfter = 500 * time.Millisecond

// StartGroup returns once writes stream to the replica and each Sentinel knows the others. It ends with the test. The
// args are those of both servers.
func StartGroup(t T, args ...string) *Group {
	t.Helper()
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	g := &Group{t: t, Primary: Start(t, args...)}
	g.Replica = Start(t, append([]string{"--replicaof", "127.0.0.1", strconv.Itoa(g.Primary.port)}, args...)...)
	g.awaitStream()
	g.startSentinels(3)
	return g
}

// awaitStream writes a key and waits for it to arrive: master_link_status:up comes before that.
func (g *Group) awaitStream() {
	g.t.Helper()
	ctx, key := context.Background(), "redistest:stream"
	from, to := g.Primary.Client(g.t), g.Replica.Client(g.t)
	g.await("the replica gets what is written", g.Replica.proc, func() (bool, error) {
		if err := from.Set(ctx, key, "1", 0).Err(); err != nil {
			return false, err
		}
		n, err := to.Exists(ctx, key).Result()
		return n == 1 && err == nil, nil
	})
	if err := from.Del(ctx, key).Err(); err != nil {
		g.t.Fatalf("redistest: %v", err)
	}
}

// CutReplication stops the replica and breaks its link, so that what is written from now on never reaches it.
func (g *Group) CutReplication() {
	g.t.Helper()
	g.Replica.Pause()
	ctx, c := context.Background(), g.Primary.Client(g.t)
	if err := c.ClientKillByFilter(ctx, "TYPE", "replica").Err(); err != nil {
		g.t.Fatalf("redistest: cut the replica's link: %v", err)
	}
	g.await("the primary has no replica", g.Primary.proc, func() (bool, error) {
		info, err := c.Info(ctx, "replication").Result()
		return strings.Contains(info, "connected_slaves:0"), err
	})
}

// LosePrimary kills the primary, lets the replica go on if it has been stopped, and returns once the Sentinels have
// promoted it.
func (g *Group) LosePrimary() {
	g.t.Helper()
	g.Primary.Kill()
	g.Replica.Resume()
	ctx, c := context.Background(), g.Replica.Client(g.t)
	g.await("the Sentinels promote the replica", g.Replica.proc, func() (bool, error) {
		role, err := c.Do(ctx, "ROLE").Slice()
		if err != nil || role[0] != "master" {
			return false, nil // a server that was stopped for long may first be busy
		}
		return g.named(g.Replica) > len(g.sentinels)/2, nil
	})
}

// named counts the Sentinels that call this server the primary.
func (g *Group) named(primary *Server) int {
	count := 0
	for _, addr := range g.sentinels {
		at, err := askSentinel(addr, func(ctx context.Context, c *redis.SentinelClient) ([]string, error) {
			return c.GetMasterAddrByName(ctx, groupName).Result()
		})
		if err == nil && len(at) == 2 && at[1] == strconv.Itoa(primary.port) {
			count++
		}
	}
	return count
}

// Options of a client that asks the Sentinels for the primary, and follows it.
func (g *Group) Options() *redis.FailoverOptions {
	return &redis.FailoverOptions{MasterName: groupName, SentinelAddrs: g.sentinels}
}

// Client is a go-redis client with these options. It is closed with the test.
func (g *Group) Client(t T) *redis.Client {
	c := redis.NewFailoverClient(g.Options())
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (g *Group) startSentinels(n int) {
	g.t.Helper()
	dir := g.t.TempDir()
	var last *Process
	for i := range n {
		err := onFreePort(func(port int) (err error) {
			last, err = g.startSentinel(filepath.Join(dir, fmt.Sprintf("sentinel-%d.conf", i)), port, n/2+1)
			return err
		})
		if err != nil {
			g.t.Fatalf("redistest: start a Sentinel: %v", err)
		}
	}
	g.await("the Sentinels know each other and the replica", last, func() (bool, error) {
		for _, addr := range g.sentinels {
			seen, err := askSentinel(addr, func(ctx context.Context, c *redis.SentinelClient) (map[string]string, error) {
				return c.Master(ctx, groupName).Result()
			})
			if err != nil || seen["num-other-sentinels"] != strconv.Itoa(n-1) || seen["num-slaves"] != "1" {
				return false, err
			}
		}
		return true, nil
	})
}

// startSentinel runs one Sentinel. It keeps what it knows in its configuration file. Sentinels that have split their votes try
// again after twice the failover-timeout.
func (g *Group) startSentinel(file string, port, quorum int) (*Process, error) {
	conf := fmt.Sprintf(`port %d
bind 127.0.0.1
sentinel monitor %s 127.0.0.1 %d %d
sentinel down-after-milliseconds %[2]s %[5]d
sentinel failover-timeout %[2]s 2000
`, port, groupName, g.Primary.port, quorum, downAfter.Milliseconds())
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	p, err := launch(g.t, g.Primary.path, filepath.Dir(file), []string{file, "--sentinel"})
	if err != nil {
		return nil, err
	}
	if err := p.ready(loopback(port)); err != nil {
		return nil, err
	}
	// By default a Sentinel introduces itself every two seconds. Before Redis 7 it can't be told to hurry.
	_, _ = askSentinel(loopback(port), func(ctx context.Context, c *redis.SentinelClient) (any, error) {
		cmd := redis.NewCmd(ctx, "SENTINEL", "DEBUG", "publish-period", 100, "ask-period", 100, "info-period", 500)
		return nil, c.Process(ctx, cmd)
	})
	g.sentinels = append(g.sentinels, loopback(port))
	return p, nil
}

func askSentinel[R any](addr string, ask func(context.Context, *redis.SentinelClient) (R, error)) (R, error) {
	c := redis.NewSentinelClient(&redis.Options{Addr: addr})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return ask(ctx, c)
}

// await waits until done says yes. It gives up when p has ended: then the answer never comes.
func (g *Group) await(what string, p *Process, done func() (bool, error)) {
	g.t.Helper()
	if err := p.poll(done); err != nil {
		g.t.Fatalf("redistest: waiting until %s: %v", what, err)
	}
}

// onFreePort tries start with one port after the other, until none has got there first.
func onFreePort(start func(port int) error) error {
	var err error
	for range portAttempts {
		var port int
		if port, err = freePort(); err != nil {
			return err
		}
		if err = start(port); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}
