package failover_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// W8: a process that stands still past its lease writes when it wakes. The resource has seen a larger token, and refuses.
func TestHolderFrozen(t *testing.T) { story.Tell(t, story.HolderFrozen) }
