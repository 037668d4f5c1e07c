package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// book is what the source says: which chapters there are, and which stories each of them tells.
type book struct {
	root     string
	chapters []chapter
}

// chapter is one numbered folder with a lock.go.
type chapter struct {
	number, dir, title string
	base               string      // the chapter whose lock.go it changes, "" for the one before
	tests              []storyTest // the chapter's own stories first, then its limits
}

// storyTest is a test that tells a story.
type storyTest struct {
	name, file string // file as a slash path from the root
	line       int
	limit      bool // it shows what this chapter can't do yet
}

func openBook(root string) (*book, error) {
	b := &book{root: root}
	locks, err := filepath.Glob(filepath.Join(root, "[0-9][0-9]-*", "lock.go"))
	if err != nil {
		return nil, err
	}
	for _, lock := range locks {
		ch, err := openChapter(filepath.Dir(lock))
		if err != nil {
			return nil, err
		}
		b.chapters = append(b.chapters, ch)
	}
	if len(b.chapters) == 0 {
		return nil, fmt.Errorf("%s has no chapters: no folder such as 01-naive-setnx with a lock.go", root)
	}
	for i := 1; i < len(b.chapters); i++ {
		b.chapters[i].sortAfter(b.chapters[i-1])
	}
	return b, nil
}

func openChapter(folder string) (chapter, error) {
	ch := chapter{dir: filepath.Base(folder)}
	ch.number = ch.dir[:2]
	lock, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, "lock.go"), nil, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		return ch, err
	}
	ch.title = title(lock.Doc.Text())
	if m := goesOn.FindStringSubmatch(lock.Doc.Text()); m != nil {
		ch.base = "0" + m[1]
	}
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return ch, err
	}
	for _, file := range files {
		tests, err := storyTests(ch.dir, file)
		if err != nil {
			return ch, err
		}
		ch.tests = append(ch.tests, tests...)
	}
	slices.SortStableFunc(ch.tests, func(x, y storyTest) int { return rank(x) - rank(y) })
	return ch, nil
}

func rank(t storyTest) int {
	if t.limit {
		return 1
	}
	return 0
}

// goesOn is how the documentation of a lock says that it doesn't change the one before.
var goesOn = regexp.MustCompile(`\bIt goes on from chapter (\d)\b`)

var chapterIntro = regexp.MustCompile(`^Package \w+ is chapter \w+: `)

// title is the first sentence of a package's documentation, without "Package x is chapter 3:".
func title(packageDoc string) string {
	s := new(doc.Package).Synopsis(packageDoc)
	s = chapterIntro.ReplaceAllString(s, "")
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".")
}

// storyTests finds the tests of a file that call story.Tell. Only the source can say that: the names of the tests
// don't, and neither does their output.
func storyTests(dir, file string) ([]storyTest, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []storyTest
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") || !tells(fn) {
			continue
		}
		base := filepath.Base(file)
		all = append(all, storyTest{
			name: fn.Name.Name, file: path.Join(dir, base), line: fset.Position(fn.Pos()).Line, limit: base == "limits_test.go",
		})
	}
	return all, nil
}

func tells(fn *ast.FuncDecl) bool {
	found := false
	ast.Inspect(fn, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(sel.Sel.Name, "Tell") {
			x, ok := sel.X.(*ast.Ident)
			found = found || ok && x.Name == "story"
		}
		return !found
	})
	return found
}

// sortAfter puts a chapter's own stories into the order in which the chapter before has left them open.
func (ch *chapter) sortAfter(before chapter) {
	place := func(t storyTest) int {
		at := slices.IndexFunc(before.tests, func(o storyTest) bool { return o.limit && o.name == t.name })
		switch {
		case t.limit:
			return 2000
		case at < 0:
			return 1000
		}
		return at
	}
	slices.SortStableFunc(ch.tests, func(x, y storyTest) int { return place(x) - place(y) })
}

func (ch chapter) test(name string) (storyTest, bool) {
	i := slices.IndexFunc(ch.tests, func(t storyTest) bool { return t.name == name })
	if i < 0 {
		return storyTest{}, false
	}
	return ch.tests[i], true
}

// byNumber finds a chapter by "03" or "3", and the place it has.
func (b *book) byNumber(number string) (int, error) {
	var known []string
	for i, ch := range b.chapters {
		if ch.number == number || ch.number == "0"+number {
			return i, nil
		}
		known = append(known, ch.number)
	}
	return 0, fmt.Errorf("there is no chapter %q: there are %s", number, strings.Join(known, ", "))
}

// one is the chapter that a command is about. The message says what to type, in terms of make.
func (b *book) one(command string, args []string) (chapter, error) {
	example := "make " + command + " CH=" + b.chapters[len(b.chapters)-1].number
	if command == "story" {
		example = "make " + b.chapters[len(b.chapters)-1].number
	}
	if len(args) != 1 {
		return chapter{}, fmt.Errorf("%s needs one chapter. Type for example: %s", command, example)
	}
	i, err := b.byNumber(args[0])
	if err != nil {
		return chapter{}, fmt.Errorf("%w. Type for example: %s", err, example)
	}
	return b.chapters[i], nil
}

// before is the number of the lock before this chapter's. Before the first comes 00, a mutex in each server.
func (b *book) before(ch chapter) string {
	i, err := b.byNumber(ch.number)
	if err != nil || i == 0 {
		return "00"
	}
	return b.chapters[i-1].number
}

// lockSource is a chapter's lock.go, line by line, and the line on which its package clause stands.
func (b *book) lockSource(ch chapter) (lines []string, clause int, err error) {
	text, err := readText(filepath.Join(b.root, ch.dir, "lock.go"))
	if err != nil {
		return nil, 0, err
	}
	lines = splitLines(text)
	clause = slices.IndexFunc(lines, func(s string) bool { return strings.HasPrefix(s, "package ") })
	return lines, max(clause, 0), nil
}

// readText reads a file as the repository has it, also where git checks out with CRLF.
func readText(name string) (string, error) {
	text, err := os.ReadFile(name)
	return strings.ReplaceAll(string(text), "\r\n", "\n"), err
}

func splitLines(text string) []string {
	text = strings.TrimSuffix(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// spoken are words of test names that are Redis commands.
var spoken = map[string]string{"Get": "GET", "Del": "DEL", "Expire": "EXPIRE"}

var (
	wordEnd    = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronymEnd = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
)

// spell turns the name of a test into a short title: TestGetThenDelInterleaved is "GET then DEL interleaved".
func spell(name string) string {
	name = strings.TrimPrefix(name, "Test")
	name = acronymEnd.ReplaceAllString(wordEnd.ReplaceAllString(name, "$1 $2"), "$1 $2")
	words := strings.Fields(name)
	for i, word := range words {
		if known, ok := spoken[word]; ok {
			words[i] = known
		} else if i > 0 && word != strings.ToUpper(word) {
			words[i] = strings.ToLower(word)
		}
	}
	return strings.Join(words, " ")
}
