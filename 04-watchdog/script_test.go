package watchdog

import (
	"context"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// W6: PEXPIRE with nothing left deletes the key and answers 1, which reads as "renewed". The script refuses, whoever calls it.
func TestScriptGuardsPEXPIRE(t *testing.T) {
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { require.NoError(t, rdb.Close()) }()
	require.NoError(t, server.Set("lock:x", "token"))
	for _, ttl := range []int{0, -1} {
		require.ErrorContains(t, rdb.Eval(context.Background(), extendScript, []string{"lock:x"}, "token", ttl).Err(), "at least a millisecond")
		require.True(t, server.Exists("lock:x"))
	}
}
