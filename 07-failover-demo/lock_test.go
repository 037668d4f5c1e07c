package failover_test

import (
	"testing"

	"go.uber.org/goleak"

	"example.com/redislock/internal/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Everything that a lock must get right, in virtual time and on a real server.
func TestContract(t *testing.T) { contract.Run(t, "07") }
