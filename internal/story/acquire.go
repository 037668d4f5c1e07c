package story

import (
	"time"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// LocalMutexOversells is why anybody wants a lock outside the process. Ten servers sell the last item.
var LocalMutexOversells = Story{
	Claim: "A mutex in each of ten servers stops nobody: each server locks its own.",
	Mutex: true,
	Tell: func(s *Stage) {
		stock := s.Resource("stock", 1)
		servers := s.Actors("S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10")
		for i, server := range servers {
			s.At(time.Duration(i) * 10 * time.Millisecond)
			server.TryLock("item:7", 30*time.Second)
			server.ReadInside(stock)
		}
		for i, server := range servers {
			s.At(time.Second + time.Duration(i)*10*time.Millisecond)
			server.WriteInside(stock)
			server.Unlock()
		}
	},
	Breaks: map[string]sim.Verdict{"00": sim.TwoHolders},
}

// CrashBeforeExpire is the flaw of two commands where one is needed.
var CrashBeforeExpire = Story{
	Claim: "A dies right after its first command. Without a TTL in that command, its key stays for ever.",
	Tell: func(s *Stage) {
		a, b := s.Actor("A"), s.Actor("B")
		a.CrashAfter(wire.Acquires)
		a.TryLock("order:1", 30*time.Second)
		s.At(10 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(15 * time.Second)
		b.Unlock() // only a majority has let B in by now
		s.At(31 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(40 * time.Second)
		b.Unlock()
		s.At(time.Hour)
		b.TryLock("order:1", 30*time.Second)
	},
	Breaks: map[string]sim.Verdict{"01": sim.Stuck},
}

// HolderCrashes is what the TTL is for.
var HolderCrashes = Story{
	Claim: "A dies while it holds the lock. Nobody unlocks; the TTL does.",
	Tell: func(s *Stage) {
		a, b := s.Actor("A"), s.Actor("B")
		a.TryLock("order:1", 30*time.Second)
		s.At(5 * time.Second)
		a.Crash()
		s.At(20 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(31 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(40 * time.Second)
		b.Unlock()
	},
}

// ReplyLostOnAcquire is the crash without a crash: the network loses one packet.
var ReplyLostOnAcquire = Story{
	Claim: "The reply to A's SET is lost. go-redis sends it again, and is told \"taken\": by A's own key.",
	Tell: func(s *Stage) {
		a, b := s.Actor("A"), s.Actor("B")
		a.LoseReply(wire.Acquires, 1)
		a.TryLock("order:1", 30*time.Second)
		s.At(time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(5 * time.Second)
		a.Unlock()
		s.At(6 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(10 * time.Second)
		b.Unlock()
		s.At(time.Hour)
		b.TryLock("order:1", 30*time.Second)
	},
	Breaks: map[string]sim.Verdict{"01": sim.Stuck, "02": sim.Stuck},
}
