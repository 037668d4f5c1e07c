package redlock_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	redlock "example.com/redislock/06-redlock"
)

const threeNodes = `"nodes": ["127.0.0.1:6379", "127.0.0.1:6380", "127.0.0.1:6381"]`

// A configuration that can't work says why, before anything is sent.
func TestConfigRefuses(t *testing.T) {
	for name, c := range map[string]struct{ file, says string }{
		"unknown field":       {`{` + threeNodes + `, "drift_factor": 0.01}`, `unknown field "drift_factor"`},
		"number for duration": {`{` + threeNodes + `, "max_hold": 10}`, "max_hold"},
		"no duration":         {`{` + threeNodes + `, "max_hold": "10"}`, "missing unit"},
		"negative duration":   {`{` + threeNodes + `, "max_hold": "-1s"}`, "-1s is negative"},
		"two objects":         {`{` + threeNodes + `} {}`, "more after the closing brace"},
		"no JSON":             {`nodes: [a, b]`, "invalid character"},
		"empty":               {``, "EOF"},
		"no nodes":            {`{}`, "no Redis nodes"},
		"no port":             {`{"nodes": ["127.0.0.1:6379", "127.0.0.2"]}`, `node 2: "127.0.0.2" is not host:port`},
		"no host":             {`{"nodes": [":6379"]}`, `node 1: ":6379" is not host:port`},
		"duplicate node":      {`{"nodes": ["127.0.0.1:6379", "127.0.0.1:6380", "127.0.0.1:6379"]}`, "nodes 1 and 3 are the same server"},
		"password not set":    {`{` + threeNodes + `, "password_env": "LOCK_TEST_NO_SUCH"}`, "LOCK_TEST_NO_SUCH is not set"},
		"retry delays":        {`{` + threeNodes + `, "retry_delay": "1s", "max_retry_delay": "10ms"}`, "retry_delay"},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := redlock.ReadConfig(strings.NewReader(c.file))
			if err == nil {
				_, _, err = config.Open()
			}
			require.ErrorContains(t, err, "lock config: ")
			require.ErrorContains(t, err, c.says)
		})
	}
}

// A server that is down is named with its reason, and nobody waits for its timeout.
func TestConfiguredNodesRefuseAtOnce(t *testing.T) {
	servers, stop := embedded(3)
	config, err := redlock.ReadConfig(strings.NewReader(`{` + threeNodes + `, "request_timeout": "1m"}`))
	require.NoError(t, err)
	for i, server := range servers {
		config.Nodes[i] = server.Addr()
	}
	stop()
	locks, closeAll, err := config.Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, closeAll()) }()
	patient, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = locks.TryLock(patient, "order:1", time.Hour)
	require.ErrorContains(t, err, "connection refused")
	require.NoError(t, patient.Err())
}

// What a file leaves out has its default: the Locker works.
func TestConfigDefaults(t *testing.T) {
	servers, stop := embedded(3)
	defer stop()
	config, err := redlock.ReadConfig(strings.NewReader(`{` + threeNodes + `}`))
	require.NoError(t, err)
	for i, server := range servers {
		config.Nodes[i] = server.Addr()
	}
	locks, closeAll, err := config.Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, closeAll()) }()
	k, err := locks.Lock(t.Context(), "order:1", 30*time.Second)
	require.NoError(t, err)
	require.NoError(t, k.Unlock(t.Context()))
}

// The example file says what the defaults are, and its values arrive.
func TestConfigOfTheExample(t *testing.T) {
	file, err := os.Open("testdata/redlock.json")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	config, err := redlock.ReadConfig(file)
	require.NoError(t, err)
	require.Len(t, config.Nodes, 5)
	require.Equal(t, redlock.Duration(10*time.Minute), config.MaxHold)
	require.Equal(t, redlock.Duration(500*time.Millisecond), config.MaxRetryDelay)
	text, err := config.RequestTimeout.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "50ms", string(text))
}
