package naivesetnx_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// Ten servers sell one item. With a mutex in each of them all ten are inside at once; with SETNX one is.
func TestLocalMutexOversells(t *testing.T) { story.Tell(t, story.LocalMutexOversells) }

// A holder that dies inside does not block the others for ever, once its key has a TTL.
func TestHolderCrashes(t *testing.T) { story.Tell(t, story.HolderCrashes) }
