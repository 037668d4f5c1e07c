package reentrant_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// The owner enters again, at depth 2. The inner Unlock leaves the lock with the outer one, and the last frees it.
func TestNestedLock(t *testing.T) { story.Tell(t, story.NestedLock) }
