package saferelease_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// A looks at the key at 29.5s and deletes it at 31s; in between its lease has ended and B has entered. Redis has to do
// both in one step.
func TestGetThenDelInterleaved(t *testing.T) { story.Tell(t, story.GetThenDelInterleaved) }
