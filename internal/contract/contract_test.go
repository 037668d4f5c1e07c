package contract

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A contract that can't say no proves nothing.
func TestCompare(t *testing.T) {
	require.Empty(t, compare(nil, nil))
	require.Empty(t, compare([]string{"it leaks"}, []string{"it leaks"}))
	require.Contains(t, compare(nil, []string{"it leaks"}), "the promise is broken:\n  - it leaks")
	require.Contains(t, compare([]string{"it leaks"}, nil), "does not show up any more")
	require.Contains(t, compare([]string{"it leaks"}, []string{"it burns"}), "in another way than declared")
	require.Contains(t, compare([]string{"it leaks"}, []string{"it leaks", "it burns"}), "in another way than declared")
}

// A declared flaw without a promise would never be looked at.
func TestFlawsArePromises(t *testing.T) {
	names := map[string]bool{}
	for _, p := range promises() {
		require.False(t, names[p.name], "two promises are called %s", p.name)
		names[p.name] = true
	}
	for number, declared := range flaws {
		require.Contains(t, extras, number)
		for name, violations := range declared {
			require.True(t, names[name], "chapter %s declares a flaw of %s, which is no promise", number, name)
			require.NotEmpty(t, violations, name)
		}
	}
}

// An error belongs to every class that errors.Is finds in it, and an error without a class is another error.
func TestClasses(t *testing.T) {
	tr := &trial{ch: chapterOf(t, "03")}
	require.Equal(t, []class{success}, tr.classes(nil))
	require.Equal(t, []class{expired}, tr.classes(tr.ch.ErrExpired))
	require.Equal(t, []class{stolen}, tr.classes(tr.ch.ErrStolen))
	require.Equal(t, []class{notHeld}, tr.classes(tr.ch.ErrNotHeld))
	require.Equal(t, []class{failed}, tr.classes(errBusiness))
	tr = &trial{ch: chapterOf(t, "01")}
	require.Equal(t, []class{notHeld}, tr.classes(tr.ch.ErrNotHeld), "chapter 1 has no other")
}
