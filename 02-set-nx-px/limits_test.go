package setnxpx_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// Between the look and the DEL the lease may end, and the key be somebody else's. Chapter 3 mends this.
func TestGetThenDelInterleaved(t *testing.T) { story.Tell(t, story.GetThenDelInterleaved) }

// A resent SET NX finds the key that its own first copy has made. Chapter 3 mends this.
func TestReplyLostOnAcquire(t *testing.T) { story.Tell(t, story.ReplyLostOnAcquire) }

// A resent DEL finds the key that the next holder has made. Chapter 3 mends this.
func TestReplyLostOnRelease(t *testing.T) { story.Tell(t, story.ReplyLostOnRelease) }
