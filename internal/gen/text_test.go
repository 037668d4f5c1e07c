package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func lettered(text string) []string { return strings.Split(text, "") }

func TestUnified(t *testing.T) {
	a := side{name: "a", lines: lettered("abcdefghijklmnopqrstuvwxyz")}
	b := side{name: "b", lines: lettered("abcdefGhijklmnopqrstuvwxyz!")}
	require.Equal(t, `--- a
+++ b
@@ -4,7 +4,7 @@
 d
 e
 f
-g
+G
 h
 i
 j
@@ -24,3 +24,4 @@
 x
 y
 z
+!
`, unified(a, b))
	require.Empty(t, unified(a, a))
	require.Equal(t, "--- \n+++ \n@@ -0,0 +1 @@\n+x\n", unified(side{}, side{lines: []string{"x"}}))
	require.Equal(t, "--- \n+++ \n@@ -1,2 +0,0 @@\n-x\n-y\n", unified(side{lines: []string{"x", "y"}}, side{}))
}

func TestHunkSaysInWhichDeclarationItIs(t *testing.T) {
	a := side{lines: []string{"func F() {", "1", "2", "3", "4", "5", "}"}}
	b := side{lines: slices.Replace(slices.Clone(a.lines), 5, 6, "6")}
	require.Contains(t, unified(a, b), "@@ -3,5 +3,5 @@ func F()\n")
}

// What a diff says has to lead from one text to the other, whatever they are.
func TestDiffsApply(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		a, b := randomText(random), randomText(random)
		diff := unified(side{lines: a}, side{lines: b})
		require.Equal(t, b, apply(t, a, diff), diff)
		added, removed := count(edits(a, b))
		require.Equal(t, len(b)-len(a), added-removed)
	}
}

func randomText(random *rand.Rand) []string {
	lines := make([]string, random.IntN(40))
	for i := range lines {
		lines[i] = string(rune('a' + random.IntN(4)))
		if i%9 < 6 {
			lines[i] = fmt.Sprint(i)
		}
	}
	return lines
}

// apply is a small patch program, which insists on every line of context.
func apply(t *testing.T, a []string, diff string) []string {
	out := []string{}
	at := 0
	for _, line := range splitLines(diff) {
		var start int
		switch {
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		case strings.HasPrefix(line, "@@"):
			_, err := fmt.Sscanf(line, "@@ -%d", &start)
			require.NoError(t, err)
			if !strings.Contains(strings.Fields(line)[1], ",0") {
				start--
			}
			out = append(out, a[at:start]...)
			at = start
		case line[0] == '+':
			out = append(out, line[1:])
		default:
			require.Equal(t, a[at], line[1:])
			if line[0] == ' ' {
				out = append(out, a[at])
			}
			at++
		}
	}
	return append(out, a[at:]...)
}

func TestNormaliseTakesOutOnlyWhatChanges(t *testing.T) {
	const before = "go: downloading example.com/x v1.0.0\n" +
		"--- FAIL: TestX (0.01s)\n    --- PASS: TestX/02=judged (12.30s)\n  10.05s  TryLock 30s  \n\n" +
		"A deletes at 10.1s the key (0.5s).\n(740 schedules a second)\nFAIL\n" +
		"FAIL\texample.com/redislock/03-safe-release\t0.941s\nok  \texample.com/x\t(cached)\nok  \texample.com/x\t1.2s [no tests to run]\n"
	const after = "--- FAIL: TestX (…s)\n    --- PASS: TestX/02=judged (…s)\n  10.05s  TryLock 30s\n\n" +
		"A deletes at 10.1s the key (0.5s).\n(… schedules a second)\nFAIL\n" +
		"FAIL\texample.com/redislock/03-safe-release\t…s\nok  \texample.com/x\t…s\nok  \texample.com/x\t…s [no tests to run]\n"
	require.Equal(t, after, normalise(before))
	require.Equal(t, after, normalise(after))
}

func TestOnlyFewCommandsMayBeShown(t *testing.T) {
	for _, command := range []string{"rm -rf x", "go vet ./...", "gofmt -l .", "go run ./x", "makefile", "go"} {
		_, err := runCommand(t.TempDir(), command)
		require.ErrorContains(t, err, "may be shown", command)
	}
	for _, command := range []string{"go test ./01-one", "go run ./internal/gen diff 03", "make", "make break CH=03"} {
		words, err := split(command)
		require.NoError(t, err)
		require.True(t, allowed(words), command)
	}
	_, err := split("make 'x")
	require.ErrorContains(t, err, "a quote is not closed")
	words, err := split(`go test -run '^Test(A|B)$'  "" x`)
	require.NoError(t, err)
	require.Equal(t, []string{"go", "test", "-run", "^Test(A|B)$", "", "x"}, words)
}

// A command that fails says so, in the block.
func TestExitStatusIsShown(t *testing.T) {
	text, err := runCommand(t.TempDir(), "go test ./nowhere")
	require.NoError(t, err)
	require.Contains(t, text, "(exit status 1)")
}

func TestABlockCannotFillBlocks(t *testing.T) {
	t.Setenv(nested, "1")
	require.ErrorContains(t, rewriteAll(shelf(t, nil), false, &strings.Builder{}), "a block can't contain")
}

func TestTidyLeavesWhatTestsPrint(t *testing.T) {
	require.Equal(t, "one\n\n  two\n\nthree\n",
		tidy("=== RUN   TestExplore\n    one\n    \n      two\n\n--- PASS: TestExplore (1s)\nPASS\n    three\nok  \tx\t1s\n"))
}

func TestFenceIsLongerThanThoseInside(t *testing.T) {
	require.Equal(t, "````text\n```\n````\n", fence("text", "```\n\n"))
}

func TestWrap(t *testing.T) {
	for _, line := range splitLines(wrap(strings.Repeat("wörd ", 60), "  ")) {
		require.LessOrEqual(t, len([]rune(line)), 96)
		require.True(t, strings.HasPrefix(line, "  w"))
	}
}
