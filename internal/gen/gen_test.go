package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/story"
)

// shelf is a small module with two chapters. Nothing of it is ever compiled.
func shelf(t *testing.T, files map[string]string) *book {
	t.Helper()
	const imports = "package x_test\n\nimport \"example.com/redislock/internal/story\"\n\n"
	all := map[string]string{
		"go.mod":           "module example.com/redislock\n",
		"01-one/lock.go":   "// Package one is chapter 1: the first lock. More.\npackage one\n\nfunc New() int { return 1 }\n",
		"02-two/lock.go":   "// Package two is chapter 2: the second. More.\npackage two\n\nfunc New() int { return 2 }\n\nfunc Old() {}\n",
		"01-one/a_test.go": imports + "func TestMutex(t *testing.T) { story.Tell(t, story.Mutex) }\n\nfunc TestUnit(t *testing.T) {}\n",
		"01-one/limits_test.go": imports + "func TestLateDel(t *testing.T) { story.Tell(t, story.LateDel) }\n\n" +
			"func TestWorkOutlivesTTL(t *testing.T) { story.Tell(t, story.Work) }\n",
		"02-two/b_test.go": imports + "func TestWorkOutlivesTTL(t *testing.T) { story.Tell(t, story.Work) }\n\n" +
			"func TestLateDel(t *testing.T) { story.Tell(t, story.LateDel) }\n",
	}
	maps.Copy(all, files)
	return bookOf(t, all)
}

// bookOf is a module that has nothing but these files.
func bookOf(t *testing.T, files map[string]string) *book {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	b, err := openBook(root)
	require.NoError(t, err)
	return b
}

// told is what the two chapters of the shelf would record.
func told(b *book) *records {
	rs := &records{book: b}
	add := func(folder, test, lock, verdict string) {
		rs.all = append(rs.all, record{
			Folder: folder, Test: test, Lock: lock, Verdict: verdict, Claim: "The claim of " + test + ".", Why: "A does at 3s.",
			Timeline: folder + " " + test + " " + lock + "\n\n" + verdict + "\n", Coloured: "\x1b[31m", Mermaid: "sequenceDiagram\n",
		})
	}
	add("01-one", "TestMutex", "00-local-mutex", "two holders")
	add("01-one", "TestMutex", "01-one", "holds")
	add("01-one", "TestMutex", "02-two", "holds")
	for _, folder := range []string{"01-one", "02-two"} {
		for _, test := range []string{"TestLateDel", "TestWorkOutlivesTTL"} {
			add(folder, test, "01-one", "stuck")
			add(folder, test, "02-two", "holds")
		}
	}
	return rs
}

func makerOf(b *book) *maker {
	m := newMaker(b)
	m.tell = func() (*records, error) { return told(b), nil }
	m.shell = func(command string) (string, error) { return "1\n2\n3\n", nil }
	return m
}

func fill(t *testing.T, name, text string) (string, []string, error) {
	t.Helper()
	p := page{name: name, lines: splitLines(text)}
	lines, drifted, err := p.fill(makerOf(shelf(t, nil)))
	return strings.Join(lines, "\n") + "\n", drifted, err
}

func TestEachKindOfBlock(t *testing.T) {
	for _, tc := range []struct{ page, block, want string }{
		{"02-two/README.md", "claim TestLateDel", "The claim of TestLateDel."},
		{"02-two/README.md", "timeline TestLateDel 01", "```text\n02-two TestLateDel 01-one\n\nstuck\n```"},
		{"README.md", "timeline TestLateDel 01", "```text\n01-one TestLateDel 01-one\n\nstuck\n```"},
		{"02-two/README.md", "timeline TestMutex 00", "```text\n01-one TestMutex 00-local-mutex\n\ntwo holders\n```"},
		{"README.md", "mermaid TestLateDel 02", "```mermaid\nsequenceDiagram\n```"},
		{"README.md", "size 01", "`lock.go`: 4 lines"},
		{"README.md", "size 02", "`lock.go`: 6 lines, 5 added and 3 removed since chapter 01"},
		{"README.md", "diff 02 code", "```diff\n--- 01-one/lock.go\n+++ 02-two/lock.go\n@@ -2,3 +2,5 @@\n-package one\n+package two\n \n" +
			"-func New() int { return 1 }\n+func New() int { return 2 }\n+\n+func Old() {}\n```"},
		{"README.md", "output go test ./01-one", "```console\n$ go test ./01-one\n1\n2\n3\n```"},
		{"README.md", "output:2 make test", "```console\n$ make test\n1\n2\n... (1 more lines)\n```"},
	} {
		t.Run(tc.block, func(t *testing.T) {
			got, drifted, err := fill(t, tc.page, "before\n<!-- gen:"+tc.block+" -->\nold\n<!-- /gen -->\nafter\n")
			require.NoError(t, err)
			require.Equal(t, "before\n<!-- gen:"+tc.block+" -->\n"+tc.want+"\n<!-- /gen -->\nafter\n", got)
			require.Len(t, drifted, 1)
			require.Contains(t, drifted[0], tc.page+":2: "+tc.block+", as it is")
			require.Contains(t, drifted[0], "\n-old\n")

			_, drifted, err = fill(t, tc.page, got)
			require.NoError(t, err)
			require.Empty(t, drifted, "a block that was just made has not drifted")
		})
	}
}

func TestMatrixLinksEachVerdictToItsTest(t *testing.T) {
	got, _, err := fill(t, "docs/x.md", "<!-- gen:matrix -->\n<!-- /gen -->\n")
	require.NoError(t, err)
	require.Equal(t, `<!-- gen:matrix -->
| Story | local mutex | [01](../01-one) | [02](../02-two) |
| --- | --- | --- | --- |
| **Mutex**<br>The claim of TestMutex. | [**breaks:** two holders](../01-one/a_test.go#L5) | [holds](../01-one/a_test.go#L5) | [holds](../01-one/a_test.go#L5) |
| **Late DEL**<br>The claim of TestLateDel. | – | [**breaks:** stuck](../01-one/limits_test.go#L5) | [holds](../02-two/b_test.go#L7) |
| **Work outlives TTL**<br>The claim of TestWorkOutlivesTTL. | – | [**breaks:** stuck](../01-one/limits_test.go#L7) | [holds](../02-two/b_test.go#L5) |
<!-- /gen -->
`, got)
}

func TestMistakesAreNamedWithTheirLine(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"a\n<!-- gen:claim TestMutex -->\nb\n", "README.md:2: this block has no <!-- /gen -->"},
		{"<!-- gen:claim TestMutex -->\n<!-- gen:size 01 -->\n<!-- /gen -->\n", "README.md:1: this block has no <!-- /gen -->"},
		{"a\n\n<!-- /gen -->\n", "README.md:3: <!-- /gen --> closes nothing"},
		{"<!-- gen:claim TestMutex\n<!-- /gen -->\n", "README.md:1: not a marker"},
		{"a\n<!-- gen:poem 01 -->\n<!-- /gen -->\n", `README.md:2: unknown kind "poem"`},
		{"<!-- gen:claim:3 TestMutex -->\n<!-- /gen -->\n", `README.md:1: unknown kind "claim:3"`},
		{"<!-- gen:claim TestNone -->\n<!-- /gen -->\n", "README.md:1: no chapter has a story test TestNone"},
		{"<!-- gen:timeline TestMutex 07 -->\n<!-- /gen -->\n", `README.md:1: TestMutex is not told with lock "07", only with 00, 01, 02`},
		{"<!-- gen:timeline TestMutex -->\n<!-- /gen -->\n", `README.md:1: "timeline TestMutex" is not enough: it should read timeline TestName NN`},
		{"<!-- gen:diff 01 -->\n<!-- /gen -->\n", "README.md:1: chapter 01 is the first"},
		{"<!-- gen:size 9 -->\n<!-- /gen -->\n", `README.md:1: there is no chapter "9": there are 01, 02`},
		{"<!-- gen:output:x make -->\n<!-- /gen -->\n", "README.md:1: output:x: that is no number of lines"},
	} {
		_, _, err := fill(t, "README.md", tc.text)
		require.ErrorContains(t, err, tc.want, tc.text)
	}
}

func TestMarkersInsideACodeBlockAreExamples(t *testing.T) {
	text := "```markdown\n<!-- gen:poem -->\n```\n"
	got, drifted, err := fill(t, "README.md", text)
	require.NoError(t, err)
	require.Empty(t, drifted)
	require.Equal(t, text, got)
}

func TestCheckFindsDriftAndWritesNothing(t *testing.T) {
	t.Setenv(nested, "")
	const stale = "<!-- gen:size 01 -->\n`lock.go`: 3 lines\n<!-- /gen -->\n"
	b := shelf(t, map[string]string{"README.md": stale, "02-two/README.md": "<!-- gen:size 01 -->\r\n`lock.go`: 4 lines\r\n<!-- /gen -->\r\n"})
	var out strings.Builder
	require.ErrorAs(t, rewriteAll(b, true, &out), &silent{})
	require.Contains(t, out.String(), "README.md:1: size 01, as it is")
	require.Contains(t, out.String(), "-`lock.go`: 3 lines\n+`lock.go`: 4 lines\n")
	require.Contains(t, out.String(), "1 of 2 blocks have drifted")
	now, err := readText(filepath.Join(b.root, "README.md"))
	require.NoError(t, err)
	require.Equal(t, stale, now)

	require.NoError(t, rewriteAll(b, false, &out))
	out.Reset()
	require.NoError(t, rewriteAll(b, true, &out))
	require.Equal(t, "2 blocks, none has drifted\n", out.String())
}

func TestNothingIsWrittenWhileOnePageHasAMistake(t *testing.T) {
	t.Setenv(nested, "")
	const stale = "<!-- gen:size 01 -->\n<!-- /gen -->\n"
	b := shelf(t, map[string]string{"README.md": stale, "docs/x.md": "<!-- gen:poem -->\n<!-- /gen -->\n"})
	require.ErrorContains(t, rewriteAll(b, false, &strings.Builder{}), "docs/x.md:1: unknown kind")
	now, err := readText(filepath.Join(b.root, "README.md"))
	require.NoError(t, err)
	require.Equal(t, stale, now)
}

// The book's order is the reader's: own stories as the chapter before has left them open, limits last.
func TestOrderOfStories(t *testing.T) {
	b := shelf(t, nil)
	require.Equal(t, []string{"TestMutex", "TestLateDel", "TestWorkOutlivesTTL"}, names(b.chapters[0]))
	require.Equal(t, []string{"TestLateDel", "TestWorkOutlivesTTL"}, names(b.chapters[1]))
	require.Equal(t, "The second", b.chapters[1].title)
}

func names(ch chapter) (all []string) {
	for _, t := range ch.tests {
		all = append(all, t.name)
	}
	return all
}

func TestSpell(t *testing.T) {
	for name, want := range map[string]string{
		"TestGetThenDelInterleaved": "GET then DEL interleaved",
		"TestWorkOutlivesTTL":       "Work outlives TTL",
		"TestTTLEndsFirst":          "TTL ends first",
		"TestLocalMutexOversells":   "Local mutex oversells",
		"TestCrashBeforeExpire":     "Crash before EXPIRE",
	} {
		require.Equal(t, want, spell(name))
	}
}

// Gen has its own picture of a record, so that it runs while a chapter doesn't compile. It has to be a true one.
func TestRecordIsReadAsStoryWritesIt(t *testing.T) {
	text, err := json.Marshal(story.Record{
		Folder: "03-x", Test: "TestX", Lock: "02-y", Claim: "c", Verdict: sim.Holds, Why: "w", Timeline: "t", Coloured: "tc", Mermaid: "m",
	})
	require.NoError(t, err)
	var r record
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, record{
		Folder: "03-x", Test: "TestX", Lock: "02-y", Claim: "c", Verdict: "holds", Why: "w", Timeline: "t", Coloured: "tc", Mermaid: "m",
	}, r)
	require.False(t, r.breaks())
}

// The limit of one stop is told where it is mended, if the walk comes by there.
func TestWalkTellsEachTimelineOnce(t *testing.T) {
	b := shelf(t, nil)
	walked := func(dirs ...string) string {
		var out strings.Builder
		w := &walk{paper: &paper{Writer: &out}, book: b, told: told(b), stop: map[string]bool{}}
		for _, dir := range dirs {
			w.stop[dir] = true
		}
		for _, ch := range b.chapters {
			if w.stop[ch.dir] {
				w.heading(ch)
				require.NoError(t, w.chapter(ch))
			}
		}
		w.whereNext(b.chapters[len(b.chapters)-1])
		return out.String()
	}
	both := walked("01-one", "02-two")
	require.Contains(t, both, "What 01 still can't do")
	require.NotContains(t, both, "01-one TestLateDel 01-one")
	require.Contains(t, both, "  stuck: A does at 3s.\n  Chapter 02 shows how, and mends it.\n")
	require.Less(t, strings.Index(both, "02-two TestLateDel 01-one"), strings.Index(both, "02-two TestLateDel 02-two"))
	require.Contains(t, both, "chapter 2 of 2")
	require.Contains(t, both, "make break CH=02")
	require.NotContains(t, both, "\x1b")

	require.Contains(t, walked("01-one"), "01-one TestLateDel 01-one")
}

func TestWrongChapterSaysWhatToType(t *testing.T) {
	b := shelf(t, nil)
	_, err := b.one("break", nil)
	require.EqualError(t, err, "break needs one chapter. Type for example: make break CH=02")
	_, err = b.one("diff", []string{"7"})
	require.EqualError(t, err, `there is no chapter "7": there are 01, 02. Type for example: make diff CH=02`)
	ch, err := b.one("story", []string{"2"})
	require.NoError(t, err)
	require.Equal(t, "02-two", ch.dir)
	require.Equal(t, "01", b.before(ch))
	require.Equal(t, "00", b.before(b.chapters[0]))
}

// A chapter may say that it goes on from an earlier one than the one before: then that is what it changes.
func TestDiffGoesOnFromWhatTheChapterSays(t *testing.T) {
	b := shelf(t, map[string]string{
		"03-three/lock.go": "// Package three is chapter 3: the third.\n//\n// It goes on from chapter 1, and leaves Old behind.\npackage three\n\nfunc New() int { return 3 }\n",
	})
	diff, err := b.lockDiff(b.chapters[2], true)
	require.NoError(t, err)
	require.Contains(t, diff, "--- 01-one/lock.go\n+++ 03-three/lock.go\n")
	require.NotContains(t, diff, "Old")
	size, err := newMaker(b).size(page{}, []string{"03"})
	require.NoError(t, err)
	require.Contains(t, size, "since chapter 01")
	diff, err = b.lockDiff(b.chapters[1], true)
	require.NoError(t, err)
	require.Contains(t, diff, "--- 01-one/lock.go\n+++ 02-two/lock.go\n")
}
