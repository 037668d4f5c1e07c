package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSkeletonKeepsSignaturesAndCompiles(t *testing.T) {
	const lock = "package one\n\nimport (\n\t\"errors\"\n\tmathrand \"math/rand/v2\"\n\t\"time\"\n\n\t\"github.com/redis/go-redis/v9\"\n)\n\n" +
		"const script = `-- script: 1 done\nreturn 1`\n\n" +
		"func (l *L) get(a int) (x, y *redis.Client, n int64, ok bool, s string, at time.Time, m map[string]int, err error) {\n" +
		"\treturn nil, nil, mathrand.Int64(), true, \"\", at, nil, nil\n}\n\nfunc stop() { time.Sleep(1) }\n\nfunc one() int { return 1 }\n"
	const want = "package one\n\nimport (\n\t\"errors\"\n\t_ \"math/rand/v2\"\n\t\"time\"\n\n\t\"github.com/redis/go-redis/v9\"\n)\n\n" +
		"const script = `-- script: 1 done\n-- write this`\n\n" +
		"func (l *L) get(a int) (x, y *redis.Client, n int64, ok bool, s string, at time.Time, m map[string]int, err error) {\n" +
		"\t// write this\n\treturn nil, nil, 0, false, \"\", time.Time{}, *new(map[string]int), errors.New(\"get is not written yet\")\n}\n\n" +
		"func stop() {\n\t// write this\n}\n\nfunc one() int { return 1 }\n"
	got, err := skeleton(chapter{number: "01"}, lock, []gap{{name: "stop"}, {name: "L.get"}, {name: "script"}})
	require.NoError(t, err)
	head, text, _ := strings.Cut(got, "\n\n")
	require.Contains(t, head, "make try CH=01 judges this file")
	require.Equal(t, want, text)

	_, err = skeleton(chapter{}, "package one\n\nconst one = 1\n", []gap{{name: "one"}})
	require.ErrorContains(t, err, "one is neither a function nor a script")
	_, err = skeleton(chapter{}, "package one\n", []gap{{name: "one"}})
	require.ErrorContains(t, err, "nothing is called one")
}

const task = "write One\nhint It is more than none,\n  and less than two.\nhint It is 1.\n"

// The reader's way: take the exercise, be judged, see the solution, write it, pass.
func TestExerciseFromTheSkeletonToTheSolution(t *testing.T) {
	t.Setenv("FORCE", "")
	b := running(t, map[string]string{"01-one/testdata/exercise.txt": task})
	ch := b.chapters[0]
	var out strings.Builder
	p := &paper{Writer: &out}
	require.ErrorContains(t, tryExercise(b, ch, p), "there is no _exercise/01-one/lock.go yet. Type: make exercise CH=01")
	require.NoError(t, setExercise(b, ch, p))
	require.ErrorContains(t, setExercise(b, ch, p), "_exercise/01-one/lock.go is there already: with FORCE=1 it is replaced")
	require.ErrorAs(t, tryExercise(b, ch, p), &silent{})
	require.Contains(t, out.String(), "--- FAIL: TestOne")

	out.Reset()
	require.NoError(t, showSolution(b, ch, p))
	require.Contains(t, out.String(), "+func One() (int, error) { return 1, errors.ErrUnsupported }\n")

	file := filepath.Join(b.root, "_exercise", "01-one", "lock.go")
	solution, err := os.ReadFile(filepath.Join(b.root, "01-one", "lock.go"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(solution, "func three() int { return two }\n"...), 0o644))
	out.Reset()
	require.ErrorAs(t, tryExercise(b, ch, p), &silent{})
	require.Contains(t, out.String(), "_exercise/01-one/lock.go:9:27: undefined: two", "a mistake is in the reader's file")

	require.NoError(t, os.WriteFile(file, solution, 0o644))
	require.NoError(t, tryExercise(b, ch, p))
	require.Contains(t, out.String(), "All tests of chapter 01 pass")
	t.Setenv("FORCE", "1")
	require.NoError(t, setExercise(b, ch, p))
}

func TestExercisesAreChecked(t *testing.T) {
	const lock = "// Package one is chapter 1.\npackage one\n\n"
	for _, tc := range []struct{ lock, want string }{
		{lock + "import \"errors\"\n\nfunc One() (int, error) { return 3, errors.ErrUnsupported }\n\nfunc Two() int { return 2 }\n", "the lock put in does not pass"},
		{lock + "func One() int { return 1 }\n\nfunc Two() int { return 2 }\n", "the skeleton doesn't compile"},
	} {
		b := running(t, map[string]string{"01-one/testdata/exercise.txt": task, "01-one/lock.go": tc.lock})
		var out strings.Builder
		require.EqualError(t, checkExercises(b, nil, &paper{Writer: &out}), "1 exercises are wrong")
		require.Contains(t, out.String(), tc.want)
	}

	b := running(t, map[string]string{"01-one/testdata/exercise.txt": strings.ReplaceAll(task, "One", "Three"),
		"01-one/lock.go": lock + "import \"errors\"\n\nfunc One() (int, error) { return 1, errors.ErrUnsupported }\n\nfunc Two() int { return 2 }\n\nfunc Three() {}\n"})
	_, err := b.checkExercise(b.chapters[0])
	require.ErrorContains(t, err, "no test fails with the skeleton")

	b = running(t, map[string]string{"01-one/testdata/exercise.txt": task})
	var out strings.Builder
	require.NoError(t, checkExercises(b, nil, &paper{Writer: &out}))
	require.Equal(t, "01  the skeleton compiles and fails TestOne, the lock put in passes\n", out.String())
}

func TestHintsAreFolded(t *testing.T) {
	b := shelf(t, map[string]string{"01-one/testdata/exercise.txt": task, "02-two/testdata/exercise.txt": "write One\n"})
	text, err := makerOf(b).make(page{name: "01-one/README.md"}, block{kind: "exercise"})
	require.NoError(t, err)
	require.Equal(t, "- `One`\n  <details><summary>Hint 1</summary>\n\n  It is more than none, and less than two.\n  </details>\n"+
		"  <details><summary>Hint 2</summary>\n\n  It is 1.\n  </details>\n", text)
	_, err = makerOf(b).make(page{name: "02-two/README.md"}, block{kind: "exercise"})
	require.ErrorContains(t, err, "02-two/testdata/exercise.txt: entry 1 needs write and hint")
}
