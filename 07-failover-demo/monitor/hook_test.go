package monitor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	monitor "example.com/redislock/07-failover-demo/monitor"
)

// refusal is an error that Redis has sent.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// Each command is counted once, as what it was and how it ended, alone or in a pipeline. The set-up of a connection is not.
func TestHookCountsEachCommand(t *testing.T) {
	const acquire, extend, release = "-- acquire: x\n", "-- extend: x\n", "-- release: x\n"
	unreachable := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, c := range []struct {
		args         []any
		reply        any
		err          error
		name, ending string
	}{
		{args: []any{"EVAL", acquire}, reply: "OK", name: "acquire", ending: "done"},
		{args: []any{"eval", acquire}, reply: []any{int64(1), "hold"}, name: "acquire", ending: "done"},
		{args: []any{"EVAL", acquire}, reply: int64(29_000), name: "acquire", ending: "foreign"},
		{args: []any{"EVAL", acquire}, reply: int64(-1), name: "acquire", ending: "foreign"}, // a key without a TTL
		{args: []any{"EVAL", extend}, reply: int64(1), name: "extend", ending: "done"},
		{args: []any{"EVAL", extend}, reply: int64(0), name: "extend", ending: "gone"},
		{args: []any{"EVAL", release}, reply: int64(-1), name: "release", ending: "foreign"},
		{args: []any{"EVAL", release}, err: refusal("READONLY"), name: "release", ending: "refused"},
		{args: []any{"EVAL", release}, err: fmt.Errorf("x: %w", context.DeadlineExceeded), name: "release", ending: "no_answer"},
		{args: []any{"EVAL", release}, err: os.ErrDeadlineExceeded, name: "release", ending: "no_answer"},
		{args: []any{"EVAL", extend}, err: context.Canceled, name: "extend", ending: "cancelled"},
		{args: []any{"EVAL", extend}, err: unreachable, name: "extend", ending: "no_connection"},
		{args: []any{"EVAL", extend}, err: io.EOF, name: "extend", ending: "no_connection"},
		{args: []any{"EVAL", "-- extended: x\n"}, reply: int64(0), name: "other", ending: "done"},
		{args: []any{"EVAL"}, err: refusal("ERR wrong number"), name: "other", ending: "refused"},
		{args: []any{"SET", acquire}, reply: "OK", name: "other", ending: "done"},
		{args: []any{"GET", "stock"}, err: redis.Nil, name: "other", ending: "done"},
		{args: []any{"HELLO", 3}, err: io.EOF},
		{args: []any{"CLIENT", "SETINFO"}, err: refusal("ERR unknown")},
	} {
		cmd := redis.NewCmd(ctx, c.args...)
		cmd.SetVal(c.reply)
		cmd.SetErr(c.err)
		m := monitor.New()
		h := m.Hook("redis")
		require.Equal(t, c.err, h.ProcessHook(func(context.Context, redis.Cmder) error { return c.err })(ctx, cmd))
		pipeline := h.ProcessPipelineHook(func(context.Context, []redis.Cmder) error { return c.err })
		require.Equal(t, c.err, pipeline(ctx, []redis.Cmder{cmd}))
		n, want := read(t, m), 2.0
		if c.name == "" {
			want = 0
		}
		require.Equal(t, want, n.of("commands_total"), "%q", c.args)
		if c.name != "" {
			labels := []string{fmt.Sprintf("command=%q", c.name), fmt.Sprintf("outcome=%q", c.ending)}
			require.Equal(t, want, n.of("commands_total", labels...), "%q %v", c.args, c.err)
		}
	}
}
