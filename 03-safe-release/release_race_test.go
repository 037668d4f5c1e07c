package saferelease_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// A looks at the key at 29s and deletes it at 32s; in between its lease has ended and B has entered. Redis has to do
// both in one step.
func TestGetThenDelInterleaved(t *testing.T) { story.Tell(t, story.GetThenDelInterleaved) }
