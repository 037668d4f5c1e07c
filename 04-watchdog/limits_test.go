package watchdog_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// W8: a process that stands still can't be told that its lease has ended, and writes when it wakes. Chapter 7 mends this.
func TestHolderFrozen(t *testing.T) { story.Tell(t, story.HolderFrozen) }

// A function that holds the lock and calls another one that takes it waits for itself. Chapter 5 mends this.
func TestNestedLock(t *testing.T) { story.Tell(t, story.NestedLock) }
