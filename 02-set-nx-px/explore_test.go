package setnxpx_test

import (
	"testing"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/story"
)

// Three clients, every order of their commands, every moment for a TTL to end, one crash anywhere.
func TestExplore(t *testing.T) {
	story.Explore(t, "02", story.Bounds{Clients: "ABC", Crashes: 1}, sim.DeletedOthers)
}
