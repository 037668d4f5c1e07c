package story

import (
	"time"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// GetThenDelInterleaved is the race of chapter 2. A's lease ends between its look at the key and its DEL.
var GetThenDelInterleaved = Story{
	Claim: "A finds its own token, pauses, and then deletes: by now the key is B's.",
	Tell: func(s *Stage) {
		a, b, c := s.Actor("A"), s.Actor("B"), s.Actor("C")
		a.TryLock("order:1", 30*time.Second)
		s.At(29 * time.Second)
		a.StopBefore(wire.Releases)
		a.Unlock()
		s.At(31 * time.Second)
		b.TryLock("order:1", 30*time.Second)
		s.At(32 * time.Second)
		a.GoOn()
		s.At(33 * time.Second)
		c.TryLock("order:1", 30*time.Second)
		s.At(40 * time.Second)
		b.Unlock()
	},
	Breaks: map[string]sim.Verdict{"01": sim.DeletedOthers, "02": sim.DeletedOthers},
}
