package redlock_test

import (
	"os"
	"testing"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/story"
)

// Two clients, three nodes, and every order in which their requests may arrive; TTLs that end at any moment, and a node that dies
// or a client that crashes anywhere. There are too many schedules to run them all: these are the shortest. A simpler majority goes
// through all of its own in internal/sim.
func TestExplore(t *testing.T) {
	long(t)
	most := 1_000
	if os.Getenv("REDISLOCK_LONG") != "" {
		most = 20_000
	}
	t.Run("a node dies", func(t *testing.T) {
		story.Explore(t, "06", story.Bounds{Clients: "AB", Outages: 1, Most: most})
	})
	t.Run("a client crashes, a reply is lost", func(t *testing.T) {
		story.Explore(t, "06", story.Bounds{Clients: "AB", Crashes: 1, Losses: 1, Most: most})
	})
}

// Q6: a node that comes back empty gives two clients valid leases, and so does one whose clock jumps. The search finds both.
func TestExploreFindsTheLimits(t *testing.T) {
	long(t)
	t.Run("a node comes back empty", func(t *testing.T) {
		story.Explore(t, "06", story.Bounds{Clients: "AB", Empties: 1, Most: 1_000}, sim.TwoValidLeases)
	})
	t.Run("a clock jumps", func(t *testing.T) {
		story.Explore(t, "06", story.Bounds{Clients: "AB", Jumps: 1, Most: 1_000}, sim.TwoValidLeases)
	})
}

// long skips a test where many changes of the lock are tried, one after the other.
func long(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
}
