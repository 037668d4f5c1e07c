package redlock_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// Q6: a node that restarts without its data votes twice. The delayed restart mends this, not the lock: see TestRestartDelayed.
func TestNodeRestartsEmpty(t *testing.T) { story.Tell(t, story.NodeRestartsEmpty) }

// A node whose clock jumps ends the key too early, and votes twice as well.
func TestClockJumps(t *testing.T) { story.Tell(t, story.ClockJumps) }

// W8: a process that stands still can't be told that its lease has ended, and writes when it wakes. Chapter 7 mends this.
func TestHolderFrozen(t *testing.T) { story.Tell(t, story.HolderFrozen) }
