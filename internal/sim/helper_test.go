package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/wire"
)

var ctx = context.Background()

const ttl = 30 * time.Second

// tokenOf is a random token that is always the same.
func tokenOf(n int) string { return fmt.Sprintf("%032x", 0xabc000+n) }

// once lets go-redis send a command one time only.
func once(o *redis.Options) { o.MaxRetries = -1 }

// attempt is what a client asked and what it got.
type attempt struct {
	done  bool
	ok    bool
	value string
	err   error
	at    time.Duration
}

// take lets a client run SET NX PX with token n.
func take(c *Client, key string, n int) *attempt {
	a := &attempt{}
	c.Do(func() {
		a.ok, a.err = setNX(c, key, n)
		a.done, a.at = true, c.w.Now()
	})
	return a
}

func setNX(c *Client, key string, n int) (bool, error) {
	err := c.Redis().Do(ctx, "SET", key, tokenOf(n), "NX", "PX", ttl.Milliseconds()).Err()
	if err == redis.Nil {
		return false, nil
	}
	return err == nil, err
}

// look lets a client run GET.
func look(c *Client, key string) *attempt {
	a := &attempt{}
	c.Do(func() {
		a.value, a.err = c.Redis().Get(ctx, key).Result()
		a.ok, a.done, a.at = a.err == nil, true, c.w.Now()
	})
	return a
}

// drop lets a client run DEL.
func drop(c *Client, key string) *attempt {
	a := &attempt{}
	c.Do(func() {
		var n int64
		n, a.err = c.Redis().Del(ctx, key).Result()
		a.ok, a.done, a.at = n == 1, true, c.w.Now()
	})
	return a
}

// took demands that the attempt ended with a yes, and when.
func (a *attempt) took(t *testing.T, at time.Duration) {
	t.Helper()
	require.True(t, a.done, "still waiting")
	require.NoError(t, a.err)
	require.True(t, a.ok, "the answer was no")
	require.Equal(t, at, a.at)
}

// failed demands that the attempt ended with an error, and when.
func (a *attempt) failed(t *testing.T, at time.Duration, contains string) {
	t.Helper()
	require.True(t, a.done, "still waiting")
	require.ErrorContains(t, a.err, contains)
	require.Equal(t, at, a.at)
}

// texts lists what happened, one line each: who did what, and the reply.
func texts(h *History, kinds ...Kind) []string {
	var all []string
	for _, e := range h.Events {
		for _, k := range kinds {
			if e.Kind == k {
				all = append(all, strings.TrimSpace(fmt.Sprintf("%v %s%s: %s %s", e.At, e.Client, e.Node, e.Text, e.Reply)))
			}
		}
	}
	return all
}

var gets = wire.Named("GET")
