package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Q1: a lease that is over when a majority has answered never begins. Only a process that stands still between two lines of
// its own can get there, and virtual time can't stop it there, so this test looks inside.
func TestLeaseThatIsOverNeverBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &lease{locker: &Locker{quorum: 2}}
		for _, left := range []time.Duration{time.Hour, 0, 0} { // one node is sure, two are not
			h.votes = append(h.votes, &vote{until: time.Now().Add(left)})
		}
		require.Error(t, h.begin(context.Background(), time.Now()))
		require.Nil(t, h.ctx)
	})
}

// Q4: a request has its turn at every node before ask returns. Otherwise a clean-up that is asked for next could come first, and
// what it should have removed would stay. Five real servers show that: TestTwoMeetOnFive in ./five.
func TestCleanUpDoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &lease{locker: &Locker{quorum: 2}}
		for range 3 {
			h.votes = append(h.votes, &vote{turn: make(chan struct{}, 1)})
		}
		looked := make(chan struct{})
		answers := h.ask(context.Background(), request{
			skip: func(*vote) bool { <-looked; return true }, // send nothing
			read: func(*vote, *once, error) error { return nil },
		})
		for _, v := range h.votes {
			require.Len(t, v.turn, 1)
		}
		close(looked)
		for range h.votes {
			require.NoError(t, (<-answers).err)
		}
	})
}
