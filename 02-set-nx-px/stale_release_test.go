package setnxpx_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// An Unlock that comes too late sees another's token, and leaves the key alone.
func TestStaleHolderUnlocks(t *testing.T) { story.Tell(t, story.StaleHolderUnlocks) }
