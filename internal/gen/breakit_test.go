package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lockText is a lock.go with two types that have a method of the same name.
const lockText = `package one

const script = ` + "`-- one\nif a then return 1 end\nif b then return 2 end`" + `

type Lock struct{}

func (l Locker) Lock() {}

func (l *Locker) free() {}

func (k *Lock) free() int {
	if x() {
		return 1
	}
	return 2
}

type Locker struct{}

func x() bool { return true || true }
`

func changeOf(t *testing.T, text string) change {
	t.Helper()
	all := paragraphs(text)
	require.Len(t, all, 1)
	c, err := newChange(append(all[0], field{"fails", "TestX"}, field{"says", "x"}))
	require.NoError(t, err)
	return c
}

func TestChangeIsMadeAndSaidInWords(t *testing.T) {
	for _, tc := range []struct{ list, words, gone, there string }{
		{"in script\n- if a then return 1 end", "in `script`: delete `if a then return 1 end`", "\nif a then return 1 end", ""},
		{
			"in script\n- if a then return 1 end\n- if b then return 2 end\n+ if b then return 2 end\n+ if a then return 1 end",
			"in `script`: swap `if a then return 1 end` and `if b then return 2 end`",
			"if a then return 1 end\nif b then return 2 end", "if b then return 2 end\nif a then return 1 end",
		},
		{"in Lock.free\n- if x() {\n- return 1\n+ if false {", "in `Lock.free`: `if x() {` and `return 1` become `if false {`", "x() {\n\t\treturn 1", "false {"},
		{"in Lock.free\n- return 1\n+ return 3", "in `Lock.free`: `return 1` becomes `return 3`", "{\n\t\treturn 1", "{\n\t\treturn 3"},
		{"in Lock.free\n- return 1\n+ return 1\n+ // more", "in `Lock.free`: after `return 1` add `// more`", "{\n\t\treturn 1", "{\n\t\treturn 1\n// more"},
		{"in x\n- || true", "in `x`: delete `|| true`", "|| true", ""},
	} {
		c := changeOf(t, tc.list)
		require.Equal(t, tc.words, c.String())
		changed, err := c.apply(lockText)
		require.NoError(t, err, tc.list)
		require.Equal(t, strings.Replace(lockText, tc.gone, tc.there, 1), changed)
	}
}

func TestChangeThatCannotBeMade(t *testing.T) {
	for _, tc := range []struct{ list, want string }{
		{"in y\n- x", "nothing is called y"},
		{"in free\n- return 1", "2 methods are called free: say of which type"},
		{"in x\n- return 1", "x has this 0 times, and not once: return 1"},
		{"in Lock.free\n- return", "Lock.free has this 2 times"},
		{"in Lock\n- {}", "Lock has this 0 times"}, // the struct's braces belong to the type, not to the method
	} {
		_, err := changeOf(t, tc.list).apply(strings.Replace(lockText, "type Lock struct{}", "type Lock int", 1))
		require.ErrorContains(t, err, tc.want)
	}
}

func TestListsWithMistakes(t *testing.T) {
	const good = "in New\n- 1\n+ 2\nfails TestA TestB/c\nsays it\n  fails\n\n"
	for text, want := range map[string]string{
		strings.Repeat(good, 2):            "01-one/testdata/breakit.txt: 2 changes, and every chapter has at least 3",
		good + "in New\nfails TestA\nsays": "change 2: it needs in, -, fails and says",
		"into New\n":                       `change 1: unknown key "into"`,
	} {
		b := shelf(t, map[string]string{"01-one/testdata/breakit.txt": text})
		_, err := b.changes(b.chapters[0])
		require.ErrorContains(t, err, want)
	}
	b := shelf(t, map[string]string{"01-one/testdata/breakit.txt": "# comment\n\n" + strings.Repeat(good, 3)})
	all, err := b.changes(b.chapters[0])
	require.NoError(t, err)
	require.Equal(t, change{in: "New", old: []string{"1"}, now: []string{"2"}, fails: []string{"TestA", "TestB/c"}, says: "it fails"}, all[2])
	_, err = b.changes(b.chapters[1])
	require.ErrorContains(t, err, "breakit.txt") // each chapter has one
}

func TestOnlyWhatIsForetoldMayFail(t *testing.T) {
	c := change{fails: []string{"TestA/c", "TestB"}}
	const failed = "--- FAIL: TestA (1s)\n    --- FAIL: TestA/b (1s)\n        --- FAIL: TestA/b/c (1s)\n--- FAIL: TestB (1s)\nFAIL\n"
	for output, want := range map[string]string{
		failed: "",
		strings.Replace(failed, "b/c", "b/cc", 1):       "TestA/c should fail and doesn't",
		strings.Replace(failed, "FAIL: TestB", "x", 1):  "TestB should fail and doesn't",
		"--- FAIL: TestD (1s)\n" + failed:               "TestD fails too",
		"--- FAIL: TestA (1s)\n--- FAIL: TestD (1s)\n":  "TestA/c, TestB should fail and doesn't; what fails is TestA, TestD",
		failed + "panic: test timed out after 90s\n":    "the tests end in a panic",
		"x.go:1: undefined\nFAIL\tx [build failed]\n":   "it doesn't compile",
		"ok  \texample.com/redislock/03-x\t5.321s\n":    "TestA/c, TestB should fail and doesn't",
		failed + "FAIL\texample.com/redislock/03-x\t5s": "",
	} {
		require.Equal(t, want, c.complaint(readJudgement(output, false)), output)
	}
}

// running is a module with one chapter that is really compiled: its lock holds what it should hold.
func running(t *testing.T, files map[string]string) *book {
	t.Helper()
	all := map[string]string{
		"go.mod":           "module example.com/running\n\ngo 1.26\n",
		"01-one/README.md": "# One\n",
		"01-one/lock.go":   "// Package one is chapter 1: it counts.\npackage one\n\nimport \"errors\"\n\nfunc One() (int, error) { return 1, errors.ErrUnsupported }\n\nfunc Two() int { return 2 }\n",
		"01-one/a_test.go": "package one\n\nimport \"testing\"\n\n" +
			"func TestOne(t *testing.T) { if n, err := One(); n != 1 || err == nil { t.Fatal(n) } }\n\n" +
			"func TestTwo(t *testing.T) { if Two() != 2 { t.Fatal(Two()) } }\n",
	}
	maps.Copy(all, files)
	return bookOf(t, all)
}

func TestChangesAreTried(t *testing.T) {
	const one = "in One\n- 1\n+ 3\nfails TestOne\nsays one is three\n\n"
	const two = "in Two\n- 2\n+ 3\nfails TestTwo\nsays two is three\n\n"
	const both = "in Two\n- 2\n+ 2 + 0*len(x)\nfails TestTwo\nsays it is nothing\n\n"
	try := func(list string, args ...string) (string, error) {
		b := running(t, map[string]string{"01-one/testdata/breakit.txt": list})
		var out strings.Builder
		err := tryChanges(b, args, &paper{Writer: &out})
		return out.String(), err
	}
	out, err := try(one + two + one)
	require.NoError(t, err, out)
	require.Contains(t, out, "01 2  in `Two`: `2` becomes `3`\n      fails, and nothing else does: TestTwo\n")
	require.Contains(t, out, "3 changes, each breaks what the list says\n")

	out, err = try(one + strings.Replace(two, "TestTwo", "TestOne", 1) + both)
	require.EqualError(t, err, "2 of 3 changes do not do what the list says")
	require.Contains(t, out, "WRONG: TestOne should fail and doesn't; what fails is TestTwo\n")
	require.Contains(t, out, "WRONG: it doesn't compile\n")

	out, err = try(one+two+one, "1", "2")
	require.NoError(t, err)
	require.Contains(t, out, "-func Two() int { return 2 }\n+func Two() int { return 3 }\n")
	require.Contains(t, out, "--- FAIL: TestTwo")
	_, err = try(one+two+one, "1", "4")
	require.ErrorContains(t, err, "chapter 01 has the changes 1 to 3")
}

func TestTableOfChanges(t *testing.T) {
	const list = "in x\n- a || b\n+ a\nfails TestA TestB/c\nsays a | b\n\n"
	b := shelf(t, map[string]string{"01-one/testdata/breakit.txt": strings.Repeat(list, 3)})
	m := makerOf(b)
	text, err := m.make(page{name: "01-one/README.md"}, block{kind: "breakit"})
	require.NoError(t, err)
	require.Contains(t, text, "\n| 3 | in `x`: `a \\|\\| b` becomes `a` | `TestA`, `TestB/c` | a \\| b |\n")
	_, err = m.make(page{name: "README.md"}, block{kind: "breakit"})
	require.ErrorContains(t, err, "this page is in no chapter")
}
