package story

import (
	"time"

	"example.com/redislock/internal/sim"
)

// WorkOutlivesTTL is the flaw of every lease that nobody renews.
var WorkOutlivesTTL = Story{
	Claim: "A works for 45 seconds under a TTL of 30. At 31 seconds the lock lets B in.",
	Tell: func(s *Stage) {
		a, b := s.Actor("A"), s.Actor("B")
		a.TryLock("order:1", 30*time.Second)
		s.At(20 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(31 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(45 * time.Second)
		a.Unlock()
		s.At(50 * time.Second)
		b.Unlock()
	},
	Breaks: map[string]sim.Verdict{"01": sim.TwoHolders, "02": sim.TwoHolders, "03": sim.TwoHolders},
}
