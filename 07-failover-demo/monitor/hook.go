package monitor

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// What became of a command. The locks' scripts answer with what they found; other commands are done or not.
const (
	done         = iota // acquire: got it. extend, release: the key was ours
	gone                // extend, release: there was no key
	foreign             // acquire, extend, release: the key was another's
	refused             // the server answered with an error: READONLY, OOM, LOADING …
	noAnswer            // none came in time: the server hangs, or the network does
	noConnection        // there was no connection, or it broke
	withdrawn           // nobody wanted the answer any more, as with a renewal that an Unlock overtakes
)

var commandOutcomes = []string{"done", "gone", "foreign", "refused", "no_answer", "no_connection", "cancelled"}

// Hook counts the commands of a go-redis client to the Redis that the caller calls node: rdb.AddHook(m.Hook("redis-1")).
// It knows the locks' scripts by how they begin ("-- extend: 1 done …"), and calls everything else "other". What a
// new connection needs to begin with (HELLO, AUTH …) is left out; that it was made, or not, counts as "connect".
func (m *Monitor) Hook(node string) redis.Hook {
	vec := m.commands.MustCurryWith(prometheus.Labels{"node": node})
	of := func(command string) []prometheus.Counter { return counters(vec, command, commandOutcomes) }
	return &hook{of("acquire"), of("extend"), of("release"), of("connect"), of("other")}
}

// hook is the counters of one node, by command and outcome.
type hook struct{ acquire, extend, release, connect, other []prometheus.Counter }

// DialHook is for redis.Hook.
func (h *hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		outcome := done
		if err != nil {
			outcome = failure(err)
		}
		h.connect[outcome].Inc()
		return conn, err
	}
}

// ProcessHook is for redis.Hook.
func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.count(cmd, err)
		return err
	}
}

// ProcessPipelineHook is for redis.Hook.
func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			h.count(cmd, cmd.Err())
		}
		return err
	}
}

func (h *hook) count(cmd redis.Cmder, err error) {
	if errors.Is(err, redis.Nil) {
		err = nil // an answer like any other
	}
	if script, isAcquire := h.script(cmd.Args()); script != nil {
		script[found(isAcquire, cmd, err)].Inc()
		return
	}
	switch cmd.Name() {
	case "hello", "auth", "client", "select", "ping", "readonly", "command":
		return
	}
	outcome := done
	if err != nil {
		outcome = failure(err)
	}
	h.other[outcome].Inc()
}

// script returns the counters of a script that the monitor knows, and nil otherwise.
func (h *hook) script(args []any) (counters []prometheus.Counter, isAcquire bool) {
	if len(args) < 2 {
		return nil, false
	}
	name, _ := args[0].(string)
	text, _ := args[1].(string)
	switch {
	case !strings.EqualFold(name, "eval"):
		return nil, false
	case strings.HasPrefix(text, "-- acquire:"):
		return h.acquire, true
	case strings.HasPrefix(text, "-- release:"):
		return h.release, false
	case strings.HasPrefix(text, "-- extend:"):
		return h.extend, false
	}
	return nil, false
}

// found says what a script has answered.
func found(isAcquire bool, cmd redis.Cmder, err error) int {
	if err != nil {
		return failure(err)
	}
	reply, ok := cmd.(interface{ Val() any })
	if !ok {
		return done
	}
	number, isNumber := reply.Val().(int64)
	switch {
	case !isNumber, !isAcquire && number > 0:
		return done
	case isAcquire, number < 0:
		return foreign // acquire says how many milliseconds the other has left
	}
	return gone
}

func failure(err error) int {
	var network net.Error
	switch {
	case isAnswer(err):
		return refused
	case errors.Is(err, context.Canceled):
		return withdrawn
	case errors.Is(err, context.DeadlineExceeded):
		return noAnswer
	case errors.As(err, &network) && network.Timeout():
		return noAnswer
	}
	return noConnection
}

// isAnswer reports whether an error is what the server said.
func isAnswer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}
