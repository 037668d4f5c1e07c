package story

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
)

var runs = flag.Int("runs", 3, "how often to tell each story")

// A story that is not the same every time teaches nothing: its timeline stands in a README, and people compare.
func TestEveryStoryIsTheSameEveryTime(t *testing.T) {
	for name, s := range map[string]Story{
		"LocalMutexOversells": LocalMutexOversells, "HolderCrashes": HolderCrashes, "CrashBeforeExpire": CrashBeforeExpire,
		"ReplyLostOnAcquire": ReplyLostOnAcquire, "ReplyLostOnRelease": ReplyLostOnRelease,
		"StaleHolderUnlocks": StaleHolderUnlocks, "GetThenDelInterleaved": GetThenDelInterleaved,
		"WorkOutlivesTTL": WorkOutlivesTTL, "HolderCutOff": HolderCutOff, "HolderFrozen": HolderFrozen, "NestedLock": NestedLock,
		"Failover": Failover, "MinorityDown": MinorityDown, "NodeRestartsEmpty": NodeRestartsEmpty,
		"RestartDelayed": RestartDelayed, "ClockJumps": ClockJumps,
	} {
		for _, ch := range Chapters {
			if !s.toldWith(ch) {
				continue
			}
			t.Run(name+"/"+ch.Dir, func(t *testing.T) {
				first := timeline(t, s, ch)
				for range *runs - 1 {
					require.Equal(t, first, timeline(t, s, ch))
				}
			})
		}
	}
}

func timeline(t *testing.T, s Story, ch Chapter) string {
	h := sim.Run(t, func(w *sim.World) { s.Tell(newStage(w, ch)) })
	return sim.Timeline(h, sim.Check(h), false) + sim.Mermaid(h, sim.Check(h)) + string(h.JSON())
}
