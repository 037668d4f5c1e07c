package reentrant_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// F1: a failover forgets the lock. The new primary has never seen the key, and lets the next one in. Chapter 6 mends this.
func TestFailover(t *testing.T) { story.Tell(t, story.Failover) }

// W8: a process that stands still can't be told that its lease has ended, and writes when it wakes. Chapter 7 mends this.
func TestHolderFrozen(t *testing.T) { story.Tell(t, story.HolderFrozen) }
