package contract

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/redislock/internal/redistest"
	"example.com/redislock/internal/wire"
)

// real is a Rig with a redis-server, and a proxy for each link.
type real struct {
	t       *testing.T
	server  *redistest.Server
	truth   *redis.Client
	proxies []*redistest.Proxy

	hung, down, full bool
	refusing         *atomic.Bool // of the Refuse that is in force
}

// newReal gives a trial the server, empty.
func newReal(t *testing.T, server *redistest.Server) *real {
	r := &real{t: t, server: server, truth: server.Client(t), refusing: new(atomic.Bool)}
	r.must(r.truth.FlushAll(t.Context()).Err())
	r.must(r.truth.ScriptFlush(t.Context()).Err())
	return r
}

// repair leaves the server in order for the next trial.
func (r *real) repair() {
	if r.hung {
		r.Resume()
	}
	if r.down {
		r.Up()
	}
	if r.full {
		r.Drain()
	}
}

func (r *real) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *real) Link(_ string, opts ...func(*redis.Options)) Link {
	p := redistest.NewProxy(r.t, r.server.Addr())
	r.proxies = append(r.proxies, p)
	return realLink{p, p.Client(r.t, append([]func(*redis.Options){brisk}, opts...)...)}
}

// brisk keeps go-redis' number of attempts and shortens the pauses between them. The true pauses are for virtual time.
func brisk(o *redis.Options) {
	o.MinRetryBackoff, o.MaxRetryBackoff = time.Millisecond, 10*time.Millisecond
	o.DialerRetryTimeout = 5 * time.Millisecond
}

func (r *real) Truth() redis.UniversalClient { return r.truth }

func (r *real) Hang() {
	r.hung = true
	r.server.Pause()
}

func (r *real) Resume() {
	r.hung = false
	r.server.Resume()
}

func (r *real) Down() {
	r.down = true
	r.server.Kill()
}

func (r *real) Up() {
	r.down = false
	r.server.Restart(r.t)
}

func (r *real) Refuse(message string) {
	on := new(atomic.Bool)
	on.Store(true)
	r.refusing = on
	for _, p := range r.proxies {
		p.ReplyError(func(words []string) bool { return on.Load() && wire.Any(words) }, message, 1_000_000)
	}
}

func (r *real) Accept() { r.refusing.Store(false) }

func (r *real) Fill() {
	r.full = true
	r.must(r.truth.ConfigSet(context.Background(), "maxmemory", "1").Err())
}

func (r *real) Drain() {
	r.full = false
	r.must(r.truth.ConfigSet(context.Background(), "maxmemory", "0").Err())
}

func (r *real) Slack() time.Duration { return 5 * time.Second }

type realLink struct {
	*redistest.Proxy
	rdb *redis.Client
}

func (l realLink) Redis() redis.UniversalClient { return l.rdb }
func (l realLink) Hold(m wire.Match) Held       { return realHeld{l.HoldRequest(m)} }

type realHeld struct{ *redistest.Held }

func (h realHeld) Await() { <-h.Caught() }
