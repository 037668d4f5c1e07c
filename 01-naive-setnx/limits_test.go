package naivesetnx_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// A crash between SETNX and PEXPIRE leaves a key that no TTL will ever end. Chapter 2 mends this.
func TestCrashBeforeExpire(t *testing.T) { story.Tell(t, story.CrashBeforeExpire) }

// A late Unlock frees the next holder's lock, and one more client enters. Chapter 2 mends this.
func TestStaleHolderUnlocks(t *testing.T) { story.Tell(t, story.StaleHolderUnlocks) }

// One lost packet has the same effect as the crash, and nobody died. Chapter 3 mends this.
func TestReplyLostOnAcquire(t *testing.T) { story.Tell(t, story.ReplyLostOnAcquire) }
