package redlock_test

import (
	"testing"

	"go.uber.org/goleak"

	"example.com/redislock/internal/contract"
	"example.com/redislock/internal/renewal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Everything that a lock must get right, in virtual time and on a real server.
func TestContract(t *testing.T) { contract.Run(t, "06") }

// Everything that a lock which renews itself must get right, in virtual time.
func TestRenewal(t *testing.T) { renewal.Run(t, "06") }
