package story

import (
	"time"

	"example.com/redislock/internal/sim"
)

// The stories here are about a majority of nodes, and are told with the locks that have one. All begin alike: N3 is away
// when A takes the lock, so that A has exactly the majority that it needs.

func (s *Stage) aHasJustAMajority() (a, b *Actor) {
	a, b = s.Actor("A"), s.Actor("B")
	s.Nodes()[2].Crash()
	s.At(time.Second)
	a.TryLock("order:1", 30*time.Second)
	s.At(2 * time.Second)
	s.Nodes()[2].Restart(true)
	s.At(3 * time.Second)
	b.TryLock("order:1", 30*time.Second)
	return a, b
}

// MinorityDown is what a majority is for.
var MinorityDown = Story{
	Claim: "One node of three is down when A takes the lock, and another dies later. A loses its majority, and is told in time.",
	Tell: func(s *Stage) {
		a, b := s.aHasJustAMajority()
		s.At(4 * time.Second)
		s.Nodes()[1].Crash()
		s.At(25 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(35 * time.Second)
		a.Unlock()
		b.TryLock("order:1", 30*time.Second)
		s.At(40 * time.Second)
		b.Unlock()
	},
	From: "06",
}

// NodeRestartsEmpty is how a node votes twice.
var NodeRestartsEmpty = Story{
	Claim: "N2 has granted A the lock, restarts without its data, and grants it to B. With N3 that is a majority.",
	Tell: func(s *Stage) {
		a, b := s.aHasJustAMajority()
		s.At(4 * time.Second)
		s.Nodes()[1].Restart(false)
		s.At(5 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(20 * time.Second)
		a.Unlock()
		s.At(25 * time.Second)
		b.Unlock()
	},
	From:   "06",
	Breaks: map[string]sim.Verdict{"06": sim.TwoHolders, "07": sim.TwoHolders},
}

// RestartDelayed is what an operator does against that: a node that has lost its data stays away until every lease that it
// may have granted is over.
var RestartDelayed = Story{
	Claim: "N2 has granted A the lock and loses its data. It stays away for longer than a ttl, and by then A has been told.",
	Tell: func(s *Stage) {
		a, b := s.aHasJustAMajority()
		s.At(4 * time.Second)
		s.Nodes()[1].Crash()
		s.At(5 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(36 * time.Second)
		s.Nodes()[1].Restart(false)
		s.At(37 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(40 * time.Second)
		a.Unlock()
		s.At(45 * time.Second)
		b.Unlock()
	},
	From: "06",
}

// ClockJumps is what a majority assumes of its nodes' clocks: that they run about equally fast.
var ClockJumps = Story{
	Claim: "N2's clock jumps ahead by a minute, and A's key ends there at once. With N3 that gives B a majority.",
	Tell: func(s *Stage) {
		a, b := s.aHasJustAMajority()
		s.At(4 * time.Second)
		s.Nodes()[1].JumpClock(time.Minute)
		s.At(5 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(20 * time.Second)
		a.Unlock()
		s.At(25 * time.Second)
		b.Unlock()
	},
	From:   "06",
	Breaks: map[string]sim.Verdict{"06": sim.TwoHolders, "07": sim.TwoHolders},
}
