package watchdog_test

import (
	"testing"

	"example.com/redislock/internal/story"
)

// Two clients, every order of their commands and renewals, every moment for a TTL to end, one crash anywhere.
func TestExplore(t *testing.T) {
	story.Explore(t, "04", story.Bounds{Clients: "AB", Crashes: 1, Renewals: 1})
}

// A renewal that hangs is sent again, and the first copy arrives before the second, after it, or never. The lease ends before
// its key does, each time.
func TestExploreRenewalsThatMeet(t *testing.T) {
	story.Explore(t, "04", story.Bounds{Clients: "A", Renewals: 3})
}

// What is easily done wrong in a renewal is found out, each by a shortest schedule.
func TestExploreNaiveRenewals(t *testing.T) {
	story.ExploreNaiveRenewals(t)
}
