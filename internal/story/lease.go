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
		s.At(46 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(50 * time.Second)
		b.Unlock()
	},
	Breaks: map[string]sim.Verdict{"01": sim.TwoHolders, "02": sim.TwoHolders, "03": sim.TwoHolders},
}

// HolderCutOff is what a renewal can't mend. The lock has to tell its holder, and in time.
var HolderCutOff = Story{
	Claim: "A loses its connection at 12 seconds and has work until 50. Its lease ends, and nobody can renew it.",
	Tell: func(s *Stage) {
		a, b := s.Actor("A"), s.Actor("B")
		a.TryLock("order:1", 30*time.Second)
		s.At(12 * time.Second)
		a.Cut()
		s.At(20 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(42 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(47 * time.Second)
		a.Heal()
		s.At(50 * time.Second)
		a.Unlock()
		s.At(60 * time.Second)
		b.Unlock()
	},
	Breaks: map[string]sim.Verdict{"01": sim.TwoHolders, "02": sim.TwoHolders, "03": sim.TwoHolders},
}

// Failover is what replication means for a lock: it is asynchronous, so the new primary may not have seen the key.
var Failover = Story{
	Claim: "Redis grants A the lock and dies before its replica has seen the key. The replica is promoted, and grants B the lock.",
	Tell: func(s *Stage) {
		a, b := s.Actor("A"), s.Actor("B")
		a.TryLock("order:1", 30*time.Second)
		s.At(2 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(3 * time.Second)
		s.Redis.FailOver()
		s.At(5 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(20 * time.Second)
		a.Unlock()
		s.At(25 * time.Second)
		b.Unlock()
	},
	Breaks: map[string]sim.Verdict{
		"01": sim.TwoHolders, "02": sim.TwoHolders, "03": sim.TwoHolders, "04": sim.TwoHolders, "05": sim.TwoHolders,
	},
}

// HolderFrozen is what no lock can mend: a process that stands still can't be told anything.
var HolderFrozen = Story{
	Claim: "A has checked its lock and is about to write. It stands still for a minute, and then writes.",
	Tell: func(s *Stage) {
		stock := s.Resource("stock", 100)
		a, b := s.Actor("A"), s.Actor("B")
		a.TryLock("item:7", 30*time.Second)
		s.At(5 * time.Second)
		a.ReadInside(stock)
		s.At(9 * time.Second)
		a.Freeze()
		a.WriteInside(stock)
		s.At(20 * time.Second)
		b.TryLock("item:7", 30*time.Second)
		s.At(41 * time.Second)
		b.TryLock("item:7", 30*time.Second)
		b.ReadInside(stock)
		s.At(45 * time.Second)
		b.WriteInside(stock)
		b.Unlock()
		s.At(69 * time.Second)
		a.Thaw()
		a.Unlock()
	},
	Breaks: map[string]sim.Verdict{"01": sim.StaleWrite, "02": sim.StaleWrite, "03": sim.StaleWrite, "04": sim.StaleWrite, "05": sim.StaleWrite, "06": sim.StaleWrite},
}

// NestedLock is a function that holds the lock and calls one that takes it too.
var NestedLock = Story{
	Claim: "placeOrder holds the lock of the order and calls reserveStock, which takes it too: A is refused by itself.",
	Tell: func(s *Stage) {
		a, b := s.Actor("A"), s.Actor("B")
		a.TryLock("order:1", 30*time.Second)
		s.At(time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(2 * time.Second)
		a.TryLock("order:1", 30*time.Second)
		s.At(3 * time.Second)
		a.Unlock()
		s.At(3500 * time.Millisecond)
		b.TryLock("order:1", 30*time.Second)
		s.At(4 * time.Second)
		a.Unlock()
		s.At(5 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(6 * time.Second)
		b.Unlock()
	},
	Breaks: map[string]sim.Verdict{"01": sim.SelfBlocked, "02": sim.SelfBlocked, "03": sim.SelfBlocked, "04": sim.SelfBlocked, "06": sim.SelfBlocked, "07": sim.SelfBlocked},
}
