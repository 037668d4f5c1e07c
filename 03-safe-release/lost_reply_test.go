package saferelease_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// An acquire that is sent twice recognises its own token.
func TestReplyLostOnAcquire(t *testing.T) { story.Tell(t, story.ReplyLostOnAcquire) }

// A release that is sent twice hits nobody else's key, and knows its own work.
func TestReplyLostOnRelease(t *testing.T) { story.Tell(t, story.ReplyLostOnRelease) }
