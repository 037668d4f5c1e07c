package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// change is something that a reader may do to a lock.go, and what then fails.
type change struct {
	in       string   // the declaration that it changes
	old, now []string // lines; none in now means that old is deleted
	fails    []string // the test that shows it, then all others that fail with it; a subtest stands for its test
	says     string   // what the reader sees
}

// fewest is how many changes a chapter lists at least.
const fewest = 3

// changes are those that a chapter lists in testdata/breakit.txt, which explains its format.
func (b *book) changes(ch chapter) ([]change, error) {
	name := ch.dir + "/testdata/breakit.txt"
	text, err := readText(filepath.Join(b.root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	var all []change
	for i, fields := range paragraphs(text) {
		c, err := newChange(fields)
		if err != nil {
			return nil, fmt.Errorf("%s: change %d: %w", name, i+1, err)
		}
		all = append(all, c)
	}
	if len(all) < fewest {
		return nil, fmt.Errorf("%s: %d changes, and every chapter has at least %d", name, len(all), fewest)
	}
	return all, nil
}

func newChange(fields []field) (c change, err error) {
	for _, f := range fields {
		switch f.key {
		case "in":
			c.in = f.value
		case "-":
			c.old = append(c.old, f.value)
		case "+":
			c.now = append(c.now, f.value)
		case "fails":
			c.fails = strings.Fields(f.value)
		case "says":
			c.says = f.value
		default:
			return c, fmt.Errorf("unknown key %q: there are in, -, +, fails and says", f.key)
		}
	}
	if c.in == "" || len(c.old) == 0 || len(c.fails) == 0 || c.says == "" {
		return c, errors.New("it needs in, -, fails and says")
	}
	return c, nil
}

// apply makes the change. The old text has to be there exactly once, however it is indented.
func (c change) apply(lock string) (string, error) {
	s, err := parseSource(lock)
	if err != nil {
		return "", err
	}
	node, err := s.declared(c.in)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, line := range c.old {
		lines = append(lines, regexp.QuoteMeta(line))
	}
	start, end := s.span(node)
	found := regexp.MustCompile(strings.Join(lines, `\n[\t ]*`)).FindAllStringIndex(lock[start:end], -1)
	if len(found) != 1 {
		return "", fmt.Errorf("%s has this %d times, and not once: %s", c.in, len(found), strings.Join(c.old, "\n"))
	}
	before, after := lock[:start+found[0][0]], lock[start+found[0][1]:]
	if line := strings.TrimRight(before, "\t "); len(c.now) == 0 && strings.HasSuffix(line, "\n") && strings.HasPrefix(after, "\n") {
		before, after = line, after[1:] // the whole line goes
	}
	return before + strings.Join(c.now, "\n") + after, nil
}

// String says in Markdown what to do.
func (c change) String() string {
	old := quote(c.old)
	verb := " becomes "
	if len(c.old) > 1 {
		verb = " become "
	}
	what := old + verb + quote(c.now)
	reversed := slices.Clone(c.now)
	slices.Reverse(reversed)
	switch n := len(c.old); {
	case len(c.now) == 0:
		what = "delete " + old
	case n > 1 && slices.Equal(c.old, reversed):
		what = "swap " + old
	case len(c.now) > n && slices.Equal(c.old, c.now[:n]):
		what = "after " + old + " add " + quote(c.now[n:])
	}
	return "in `" + c.in + "`: " + what
}

// quote makes code of each line.
func quote(lines []string) string {
	var all []string
	for _, line := range lines {
		all = append(all, "`"+line+"`")
	}
	return strings.Join(all, " and ")
}

// complaint says what is wrong with the change, "" if what it foretells is what happens: these tests fail and no others.
func (c change) complaint(j judgement) string {
	var expected, missing []string
	for _, name := range c.fails {
		test, subtest, _ := strings.Cut(name, "/")
		expected = append(expected, test)
		if !slices.ContainsFunc(j.failed, func(failed string) bool {
			return failed == name || subtest != "" && strings.HasPrefix(failed, test+"/") && strings.HasSuffix(failed, "/"+subtest)
		}) {
			missing = append(missing, name)
		}
	}
	others := slices.DeleteFunc(j.tests(), func(name string) bool { return slices.Contains(expected, name) })
	switch {
	case !j.built:
		return "it doesn't compile"
	case j.panicked:
		return "the tests end in a panic"
	case len(missing) > 0 && len(others) > 0:
		return strings.Join(missing, ", ") + " should fail and doesn't; what fails is " + strings.Join(j.tests(), ", ")
	case len(missing) > 0:
		return strings.Join(missing, ", ") + " should fail and doesn't"
	case len(others) > 0:
		return strings.Join(others, ", ") + " fails too"
	}
	return ""
}

// tryChanges makes each change of some chapters, and checks what fails. With a number it makes one, and shows what
// the reader sees.
func tryChanges(b *book, args []string, p *paper) error {
	chapters := b.chapters
	if len(args) > 0 {
		ch, err := b.one("breakit", args[:1])
		if err != nil {
			return err
		}
		chapters = []chapter{ch}
	}
	if len(args) > 1 {
		return showChange(b, chapters[0], args[1], p)
	}
	wrong, total := 0, 0
	for _, ch := range chapters {
		if !b.hasText(ch) {
			p.print("%s  has no README.md yet, so nothing is tried\n", ch.number)
			continue
		}
		all, err := b.changes(ch)
		if err != nil {
			p.print("%s %s\n", p.in(red, "WRONG"), err)
			wrong++
		}
		for i, c := range all {
			total++
			p.print("%s %d  %s\n", ch.number, i+1, c)
			j, err := b.change(ch, c, "-run=^Test") // examples panic when they fail, and end the run
			complaint := ""
			if err != nil {
				complaint = err.Error()
			} else if complaint = c.complaint(j); complaint != "" {
				complaint += "\n" + cut(j.output, 40)
			}
			if complaint != "" {
				wrong++
				p.print("      %s %s\n", p.in(red, "WRONG:"), complaint)
				continue
			}
			p.print("      %s %s\n", p.in(green, "fails, and nothing else does:"), strings.Join(c.fails, ", "))
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d changes do not do what the list says", wrong, total)
	}
	p.print("%d changes, each breaks what the list says\n", total)
	return nil
}

// hasText reports whether a chapter is more than its code.
func (b *book) hasText(ch chapter) bool {
	_, err := os.Stat(filepath.Join(b.root, ch.dir, "README.md"))
	return err == nil
}

// change judges the chapter's lock after a change.
func (b *book) change(ch chapter, c change, flags ...string) (judgement, error) {
	lock, err := readText(filepath.Join(b.root, ch.dir, "lock.go"))
	if err != nil {
		return judgement{}, err
	}
	changed, err := c.apply(lock)
	if err != nil {
		return judgement{}, err
	}
	return b.judge(ch, changed, flags...)
}

// showChange shows one change, and how its first test fails.
func showChange(b *book, ch chapter, number string, p *paper) error {
	all, err := b.changes(ch)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(all) {
		return fmt.Errorf("chapter %s has the changes 1 to %d. Type for example: make breakit CH=%s N=1", ch.number, len(all), ch.number)
	}
	c := all[n-1]
	lock, err := readText(filepath.Join(b.root, ch.dir, "lock.go"))
	if err != nil {
		return err
	}
	changed, err := c.apply(lock)
	if err != nil {
		return err
	}
	name := ch.dir + "/lock.go"
	p.print("%s\n", coloured(p, unified(side{name: name, lines: splitLines(lock)}, side{name: name + ", changed", lines: splitLines(changed)})))
	test, _, _ := strings.Cut(c.fails[0], "/")
	j, err := b.judge(ch, changed, "-run=^"+test+"$")
	if err != nil {
		return err
	}
	p.print("%s\n%s\n%s", p.in(bold, "$ go test ./"+ch.dir+" -run "+test), j.output, wrap(c.says, ""))
	if j.passed {
		return errors.New("\nThat is wrong: the test passes")
	}
	return nil
}

// breakit is the table of a chapter's changes.
func (m *maker) breakit(p page, _ []string) (string, error) {
	ch, err := m.book.ofPage(p)
	if err != nil {
		return "", err
	}
	all, err := m.book.changes(ch)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| | change in `lock.go` | what fails | what it says |\n| --- | --- | --- | --- |\n")
	for i, c := range all {
		fails := strings.ReplaceAll(quote(c.fails), " and ", ", ")
		fmt.Fprintf(&out, "| %d | %s | %s | %s |\n", i+1, inCell(c.String()), fails, inCell(c.says))
	}
	return out.String(), nil
}

// inCell lets a text stand in the cell of a table.
func inCell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// ofPage is the chapter in whose folder a page is.
func (b *book) ofPage(p page) (chapter, error) {
	i := slices.IndexFunc(b.chapters, func(ch chapter) bool { return ch.dir == p.folder() })
	if i < 0 {
		return chapter{}, errors.New("this page is in no chapter")
	}
	return b.chapters[i], nil
}
