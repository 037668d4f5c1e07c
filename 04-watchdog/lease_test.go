package watchdog_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// Work of 45 seconds under a TTL of 30: the lease is renewed at 10, 20, 30 and 40 seconds, and B waits.
func TestWorkOutlivesTTL(t *testing.T) { story.Tell(t, story.WorkOutlivesTTL) }

// Nobody can renew the lease, so the lock tells its holder, before the key can expire.
func TestHolderCutOff(t *testing.T) { story.Tell(t, story.HolderCutOff) }

// The renewal dies with its holder, and the key one TTL later.
func TestHolderCrashes(t *testing.T) { story.Tell(t, story.HolderCrashes) }
