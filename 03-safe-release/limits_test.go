package saferelease_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// Work that takes longer than the TTL is not protected, and nobody tells it. Chapter 4 mends this.
func TestWorkOutlivesTTL(t *testing.T) { story.Tell(t, story.WorkOutlivesTTL) }
