package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
)

var ctx = context.Background()

// audits runs the command.
func audits(args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	status = run(ctx, args, &o, &e)
	return status, o.String(), e.String()
}

// The exit status tells a script what the text tells a person: in order, something wrong, or no audit.
func TestExitStatus(t *testing.T) {
	good, bad := miniredis.RunT(t), miniredis.RunT(t)
	require.NoError(t, good.Set("lock:order:1", "token"))
	good.SetTTL("lock:order:1", 30*time.Second)
	require.NoError(t, bad.Set("lock:order:2", "token"))
	bad.HSet("lock:\n", "x", "y")

	status, out, errs := audits("-addr", good.Addr())
	require.Equal(t, 0, status, errs)
	require.Equal(t, good.Addr()+`: 1 locks, 0 problems
  least time left: held, or not renewed, for the longest time: 1
    "lock:order:1"                           string, 30s left
`, out)

	status, out, _ = audits("-addr", "redis://"+good.Addr()+"/0,"+bad.Addr(), "-max-ttl", "10s", "-show", "1")
	require.Equal(t, 1, status)
	require.Equal(t, good.Addr()+`: 1 locks, 1 problems
  with more left than 10s: 1
    "lock:order:1"                           string, 30s left
  least time left: held, or not renewed, for the longest time: 1
    "lock:order:1"                           string, 30s left
`+bad.Addr()+`: 2 locks, 2 problems
  without a TTL: 1
    "lock:order:2"                           string, never expires
  no string, so no lock: 1
    "lock:\n"                                hash, never expires
`, out)

	_, out, _ = audits("-addr", bad.Addr(), "-most", "1")
	require.Contains(t, out, "not complete: stopped after 1 locks")

	server := miniredis.RunT(t)
	down := server.Addr()
	server.Close()
	status, out, errs = audits("-addr", down+","+bad.Addr())
	require.Equal(t, 2, status, "one that could not be audited matters more than what is wrong in others")
	require.Contains(t, errs, down)
	require.True(t, strings.HasPrefix(out, bad.Addr()), "the others are audited all the same")

	for _, args := range [][]string{{"-no-such-flag"}, {"6379"}, {"-addr", "http://x"}, {"-max-ttl", "soon"}} {
		status, out, errs = audits(args...)
		require.Equal(t, 2, status, args)
		require.Empty(t, out)
		require.NotEmpty(t, errs, args)
	}
	status, _, errs = audits("-help")
	require.Equal(t, 0, status)
	require.Contains(t, errs, "-max-ttl")
}
