package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// prose checks what people write between the blocks: that links lead somewhere, that the tests exist, that the commands
// can be typed, and that no Go code has been pasted.
type prose struct {
	book     *book
	pages    map[string]page     // by name
	tests    map[string][]string // test, example or benchmark → the folders that have it
	literals map[string]bool     // all strings in the Go code: names of subtests are among them
	targets  map[string]bool     // of the Makefile
	ci       string              // .ci/run
}

// checkProse is all complaints about the pages, each with its place.
func checkProse(b *book, pages []page) ([]string, error) {
	c := &prose{book: b, pages: map[string]page{}, tests: map[string][]string{}, literals: map[string]bool{}}
	for _, p := range pages {
		c.pages[p.name] = p
	}
	if err := c.readCode(); err != nil {
		return nil, err
	}
	if err := c.readMakefile(); err != nil {
		return nil, err
	}
	var all []string
	for _, p := range pages {
		for _, l := range p.read() {
			for _, complaint := range c.line(p, l) {
				all = append(all, p.at(l.index, complaint).Error())
			}
		}
	}
	return all, nil
}

func (c *prose) readCode() error {
	return eachFile(c.book.root, ".go", func(name string) error {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(c.book.root, filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					c.literals[text] = true
				}
			}
			return true
		})
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && strings.HasSuffix(name, "_test.go") && fn.Recv == nil {
				c.tests[fn.Name.Name] = append(c.tests[fn.Name.Name], path.Dir(name))
			}
		}
		return nil
	})
}

var target = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)

func (c *prose) readMakefile() error {
	c.targets = map[string]bool{}
	for _, ch := range c.book.chapters {
		c.targets[ch.number] = true
	}
	var texts [2]string
	for i, name := range []string{"Makefile", ".ci/run"} {
		text, err := readText(filepath.Join(c.book.root, filepath.FromSlash(name)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		texts[i] = text
	}
	for _, m := range target.FindAllStringSubmatch(texts[0], -1) {
		c.targets[m[1]] = true
	}
	c.ci = texts[1]
	return nil
}

// eachFile goes through all files of the repository with an ending, with slash paths from its root.
func eachFile(root, ending string, do func(name string) error) error {
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata"
		if d.IsDir() && hidden && file != root {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(file) != ending {
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		return do(filepath.ToSlash(name))
	})
}

// textLine is a line of a page, and where it stands.
type textLine struct {
	index     int
	text      string
	fence     string // the language of the code block that it is in, "" outside, "plain" without a language
	opens     bool   // it opens the code block
	generated bool   // gen makes it
	notRun    bool   // the line before says why it is not run
}

var (
	fenceMark = regexp.MustCompile("^ *(`{3,})(\\w*)")
	notRun    = regexp.MustCompile(`^ *<!-- not run: \S.* -->$`)
)

// read takes a page apart.
func (p page) read() []textLine {
	var all []textLine
	l := textLine{}
	mark := ""
	excused := false
	for i, text := range p.lines {
		l.index, l.text, l.opens = i, text, false
		m := fenceMark.FindStringSubmatch(text)
		switch {
		case mark == "" && opening.MatchString(text):
			l.generated = true
		case mark == "" && text == closing:
			l.generated = false
		case mark == "" && m != nil:
			mark, l.fence, l.opens = m[1], "plain", true
			if m[2] != "" {
				l.fence = m[2]
			}
			l.notRun = excused
		case mark != "" && strings.TrimSpace(text) == mark:
			mark, l.fence, l.notRun = "", "", false
			excused = false
			continue
		}
		if mark == "" {
			l.notRun = excused
		}
		excused = notRun.MatchString(text)
		all = append(all, l)
	}
	return all
}

var shells = map[string]bool{"console": true, "sh": true, "bash": true, "shell": true}

// line is what is wrong with a line.
func (c *prose) line(p page, l textLine) (complaints []string) {
	add := func(complaint string) {
		if complaint != "" {
			complaints = append(complaints, complaint)
		}
	}
	if l.fence == "" {
		for _, link := range links(l.text) {
			add(c.link(p, link))
		}
	}
	if l.generated {
		return complaints
	}
	commands, rest := l.commands()
	if !l.notRun {
		for _, command := range commands {
			add(c.command(command))
		}
	}
	for _, name := range testName.FindAllString(rest, -1) {
		if len(c.tests[name]) == 0 {
			add("there is no " + name)
		}
	}
	for _, name := range promiseName.FindAllString(rest, -1) {
		if !c.literals[name] {
			add("no test is called " + name)
		}
	}
	if l.fence == "go" && l.opens {
		add("pasted Go code: let <!-- gen:code file.go#name --> take it from a file that compiles")
	}
	return complaints
}

// commands are what can be typed, and the rest of the line: a pattern for go test -run is not the name of a test.
func (l textLine) commands() (all []string, rest string) {
	switch {
	case l.opens || l.fence != "" && !shells[l.fence]:
		return nil, l.text
	case l.fence != "":
		return []string{l.text}, ""
	}
	rest = inline.ReplaceAllStringFunc(l.text, func(code string) string {
		command := strings.Trim(code, "`")
		for _, start := range []string{"make ", "go test ", "go run "} {
			if strings.HasPrefix(command, start) {
				all = append(all, command)
				return ""
			}
		}
		return code
	})
	return all, rest
}

var (
	testName    = regexp.MustCompile(`\b(?:(?:Test|Benchmark)[A-Z]|Example[A-Z_])\w+`)
	promiseName = regexp.MustCompile(`\b[A-Z][0-9]{1,2}_\w+`)
	inline      = regexp.MustCompile("`([^`]+)`")
	linkTarget  = regexp.MustCompile(`\]\(([^()\s]+)(?: "[^"]*")?\)|^\[[^\]]+\]: (\S+)|\b(?:href|src|srcset)="([^"\s]+)"`)
	external    = regexp.MustCompile(`^[a-z]+:`)
)

// links are where the links of a line lead to. Those in inline code are none.
func links(text string) (all []string) {
	for _, m := range linkTarget.FindAllStringSubmatch(inline.ReplaceAllString(text, "x"), -1) {
		all = append(all, m[1]+m[2]+m[3])
	}
	return all
}

// link says what is wrong with a link, "" if it leads somewhere. Links to other sites are not followed.
func (c *prose) link(p page, to string) string {
	if external.MatchString(to) {
		return ""
	}
	file, anchor, _ := strings.Cut(to, "#")
	name := p.name
	if file != "" {
		name = path.Join(path.Dir(p.name), file)
	}
	info, err := os.Stat(filepath.Join(c.book.root, filepath.FromSlash(name)))
	switch {
	case err != nil || strings.HasPrefix(name, "../"):
		return to + " leads to nothing"
	case anchor == "":
		return ""
	case info.IsDir():
		name = path.Join(name, "README.md")
	}
	if target, ok := c.pages[name]; ok {
		if !target.anchors()[anchor] {
			return to + ": " + name + " has no such heading"
		}
		return ""
	}
	text, err := readText(filepath.Join(c.book.root, filepath.FromSlash(name)))
	line, numberErr := strconv.Atoi(strings.TrimPrefix(anchor, "L"))
	if err != nil || numberErr != nil || line > len(splitLines(text)) {
		return to + ": " + name + " has no such line"
	}
	return ""
}

var anchorTag = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)

// anchors are the places in a page that a link can lead to: GitHub makes one of each heading.
func (p page) anchors() map[string]bool {
	all := map[string]bool{}
	for _, l := range p.read() {
		for _, m := range anchorTag.FindAllStringSubmatch(l.text, -1) {
			all[m[1]] = true
		}
		if text := strings.TrimLeft(l.text, "#"); l.fence == "" && text != l.text && strings.HasPrefix(text, " ") {
			name := slug(text)
			for i := 1; all[name]; i++ {
				name = slug(text) + "-" + strconv.Itoa(i)
			}
			all[name] = true
		}
	}
	return all
}

var linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

func slug(heading string) string {
	heading = linkText.ReplaceAllString(strings.TrimSpace(heading), "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || isWord(r):
			return r
		}
		return -1
	}, strings.ToLower(heading))
}
