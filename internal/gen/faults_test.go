package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The catalogue of faults lists each kind's tests, and refuses a page that has no row for one.
func TestFaultsListTheirTests(t *testing.T) {
	b := shelf(t, map[string]string{
		"01-one/q_test.go": "package x\n\n// Q1, Q2: it counts.\nfunc TestCounts(t *testing.T) {}\n\n// Nothing: it is named.\nfunc TestOther(t *testing.T) {}\n",
		"02-two/q_test.go": "package x\n\n// Q2: it counts.\nfunc TestCounts(t *testing.T) {}\n",
		"internal/contract/a.go": "package contract\n\nvar all = []string{\"A1_reply_lost\", \"A1_someone's_key\", \"A2\"}\n\n" +
			"var flaws = []string{\"A1_reply_lost\"}\n",
		"internal/renewal/a.go": "package renewal\n\nvar all = []string{\"A1_Q3_late_grant\"}\n",
	})
	block := func(letter string, rows ...string) (string, error) {
		return makerOf(b).make(page{name: "docs/x.md", lines: rows}, block{kind: "faults", args: letter})
	}
	got, err := block("Q", "| Q2 | x |", "| Q1 | x |", "| Q3 | x |", "| Q4 | nobody tests this |")
	require.NoError(t, err)
	require.Equal(t, "- **Q2**: `TestCounts` [01](../01-one/q_test.go#L4) [02](../02-two/q_test.go#L4).\n"+
		"- **Q1**: `TestCounts` [01](../01-one/q_test.go#L4).\n- **Q3**: in `TestRenewal`: late grant.\n", got)
	got, err = block("A", "| A1 | x |")
	require.NoError(t, err)
	require.Equal(t, "- **A1**: in `TestContract`: reply lost, someone's key. In `TestRenewal`: late grant.\n", got)
	_, err = block("Q", "| Q1 | x |", "| Q3 | x |")
	require.ErrorContains(t, err, "Q2")
}
