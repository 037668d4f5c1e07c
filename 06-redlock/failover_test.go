package redlock_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// F1: one node of three forgets the lock. The other two are still a majority, and B stays out.
func TestFailover(t *testing.T) { story.Tell(t, story.Failover) }

// Q6: when a majority is no longer sure of the key, the lock tells its holder, before a majority can grant it to anybody else.
func TestMinorityDown(t *testing.T) { story.Tell(t, story.MinorityDown) }

// A node that has lost its data and stays away for longer than the longest ttl can't help a second holder in.
func TestRestartDelayed(t *testing.T) { story.Tell(t, story.RestartDelayed) }
