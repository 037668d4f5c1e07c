package setnxpx_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// Key and TTL come in one command: wherever the client dies, the key dies within the TTL.
func TestCrashBeforeExpire(t *testing.T) { story.Tell(t, story.CrashBeforeExpire) }
