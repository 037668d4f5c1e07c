package sim

import (
	"sync"
	"testing"
)

var found sync.Map // what searches have found, by the name of their test

// Once returns what a search finds. A search whose outcome is the same every time runs once in a process, so that -count
// repeats only what may come out differently. What a test demands of the outcome it demands each time.
//
// A test that makes several searches gives each a subtest of its own, or makes them in one call.
func Once[T any](t testing.TB, search func() T) T {
	t.Helper()
	if outcome, ok := found.Load(t.Name()); ok {
		return outcome.(T)
	}
	outcome := search()
	found.Store(t.Name(), outcome)
	return outcome
}
