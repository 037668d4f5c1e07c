package story

import (
	"time"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// StaleHolderUnlocks is the flaw of a blind DEL, and the chain that follows it: A frees B's lock, and C enters.
var StaleHolderUnlocks = Story{
	Claim:  "A's Unlock is late. Its lease has ended, and the key that it deletes is B's.",
	Tell:   unlockHeldUp(wire.Any),
	Breaks: map[string]sim.Verdict{"01": sim.DeletedOthers},
}

// GetThenDelInterleaved is the race of chapter 2: A's lease ends between its look at the key and its DEL.
var GetThenDelInterleaved = Story{
	Claim:  "A finds its own token, pauses, and then deletes: by now the key is B's.",
	Tell:   unlockHeldUp(wire.Releases),
	Breaks: map[string]sim.Verdict{"01": sim.DeletedOthers, "02": sim.DeletedOthers},
}

// unlockHeldUp stops A in its Unlock, before the given command, until its lease has ended and B has entered.
func unlockHeldUp(before wire.Match) func(*Stage) {
	return func(s *Stage) {
		a, b, c := s.Actor("A"), s.Actor("B"), s.Actor("C")
		a.TryLock("order:1", 30*time.Second)
		s.At(29500 * time.Millisecond)
		a.StopBefore(before)
		a.Unlock()
		s.At(30500 * time.Millisecond)
		b.TryLock("order:1", 30*time.Second)
		s.At(31 * time.Second) // within the two seconds that an Unlock may take
		a.GoOn()
		s.At(32 * time.Second)
		c.TryLock("order:1", 30*time.Second)
		s.At(40 * time.Second)
		b.Unlock()
	}
}

// ReplyLostOnRelease is the same deletion without any pause: the network repeats it.
var ReplyLostOnRelease = Story{
	Claim: "The reply to A's DEL is lost. go-redis sends the DEL again, and by now the key is B's.",
	Tell: func(s *Stage) {
		a, b := s.Actor("A"), s.Actor("B")
		a.TryLock("order:1", 30*time.Second)
		s.At(9 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(10 * time.Second)
		a.LoseReply(wire.Releases, 1)
		a.Unlock()
		s.At(10*time.Second + 50*time.Millisecond)
		b.TryLock("order:1", 30*time.Second)
		s.At(20 * time.Second)
		b.Unlock()
	},
	Breaks: map[string]sim.Verdict{"01": sim.DeletedOthers, "02": sim.DeletedOthers},
}
