package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maker makes the contents of blocks. It runs nothing before a block asks for it, and nothing twice.
type maker struct {
	book    *book
	told    *records
	untold  bool // telling has failed
	tell    func() (*records, error)
	shell   func(command string) (string, error)
	outputs map[string]string
	made    int
}

func newMaker(b *book) *maker {
	return &maker{
		book: b, outputs: map[string]string{},
		tell:  func() (*records, error) { return recordStories(b, b.chapters) },
		shell: func(command string) (string, error) { return runCommand(b.root, command) },
	}
}

// kind is how a block is made: for which page, and from which words after the kind's name.
type kind struct {
	usage string
	least int // words it needs
	make  func(m *maker, p page, args []string) (string, error)
}

var kinds = map[string]kind{
	"matrix":   {"matrix", 0, (*maker).matrix},
	"timeline": {"timeline TestName NN", 2, (*maker).timeline},
	"mermaid":  {"mermaid TestName NN", 2, (*maker).mermaid},
	"claim":    {"claim TestName", 1, (*maker).claim},
	"diff":     {"diff NN, or diff NN code", 1, (*maker).diff},
	"size":     {"size NN", 1, (*maker).size},
	"breakit":  {"breakit", 0, (*maker).breakit},
	"exercise": {"exercise", 0, (*maker).exercise},
	"code":     {"code path/file.go#name, or #one,Type.Method for several", 1, (*maker).code},
	"faults":   {"faults LETTER", 1, (*maker).faults},
	"output":   {"output COMMAND, or output:40 COMMAND to cut after 40 lines", 1, nil},
}

func (m *maker) make(p page, bl block) (string, error) {
	m.made++
	name, limit, limited := strings.Cut(bl.kind, ":")
	k, known := kinds[name]
	if !known || limited && name != "output" {
		return "", fmt.Errorf("unknown kind %q: there are %s", bl.kind, strings.Join(kindNames(), ", "))
	}
	args := strings.Fields(bl.args)
	if len(args) < k.least {
		return "", fmt.Errorf("%q is not enough: it should read %s", strings.TrimSpace(bl.kind+" "+bl.args), k.usage)
	}
	if name == "output" {
		return m.output(limit, bl.args)
	}
	return k.make(m, p, args)
}

func kindNames() []string {
	var all []string
	for name := range kinds {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// records tells the stories, once.
func (m *maker) records() (_ *records, err error) {
	if m.told == nil && !m.untold {
		m.told, err = m.tell()
		m.untold = err != nil
		return m.told, err
	}
	if m.untold {
		return nil, errors.New("the stories are not told either, see above")
	}
	return m.told, nil
}

func (m *maker) find(p page, args []string) (record, error) {
	rs, err := m.records()
	if err != nil {
		return record{}, err
	}
	return rs.find(args[0], p.folder(), args[1])
}

func (m *maker) timeline(p page, args []string) (string, error) {
	r, err := m.find(p, args)
	return fence("text", r.Timeline), err
}

func (m *maker) mermaid(p page, args []string) (string, error) {
	r, err := m.find(p, args)
	return fence("mermaid", r.Mermaid), err
}

func (m *maker) claim(p page, args []string) (string, error) {
	rs, err := m.records()
	if err != nil {
		return "", err
	}
	return rs.claimOf(args[0], p.folder())
}

func (rs *records) claimOf(test, folder string) (string, error) {
	home, _, err := rs.home(test, folder)
	if err != nil {
		return "", err
	}
	for _, r := range rs.all {
		if r.Folder == home.dir && r.Test == test {
			return r.Claim, nil
		}
	}
	return "", fmt.Errorf("%s/%s has recorded nothing", home.dir, test)
}

func (m *maker) diff(_ page, args []string) (string, error) {
	i, err := m.book.byNumber(args[0])
	if err != nil {
		return "", err
	}
	code := len(args) > 1 && args[1] == "code"
	if len(args) > 1 && !code {
		return "", fmt.Errorf("%q: the only word after the number is code", args[1])
	}
	text, err := m.book.lockDiff(m.book.chapters[i], code)
	return fence("diff", text), err
}

func (m *maker) size(_ page, args []string) (string, error) {
	i, err := m.book.byNumber(args[0])
	if err != nil {
		return "", err
	}
	ch := m.book.chapters[i]
	now, err := m.book.lockSide(ch)
	if err != nil || i == 0 {
		return fmt.Sprintf("`lock.go`: %d lines", len(now.lines)), err
	}
	base, err := m.book.baseOf(ch)
	if err != nil {
		return "", err
	}
	old, err := m.book.lockSide(base)
	added, removed := count(edits(old.lines, now.lines))
	return fmt.Sprintf("`lock.go`: %d lines, %d added and %d removed since chapter %s",
		len(now.lines), added, removed, base.number), err
}

// fence makes a code block, with a fence that doesn't occur in the text.
func fence(language, text string) string {
	mark := "```"
	for strings.Contains(text, mark) {
		mark += "`"
	}
	return mark + language + "\n" + strings.TrimRight(text, "\n") + "\n" + mark + "\n"
}

// matrix is the table of all stories and all locks. Each verdict leads to the test that shows it.
func (m *maker) matrix(p page, _ []string) (string, error) {
	rs, err := m.records()
	if err != nil {
		return "", err
	}
	up := strings.Repeat("../", strings.Count(p.name, "/"))
	var out strings.Builder
	out.WriteString("| Story |")
	for _, lock := range rs.locks() {
		out.WriteString(" " + m.column(lock, up) + " |")
	}
	out.WriteString("\n| --- |" + strings.Repeat(" --- |", len(rs.locks())) + "\n")
	for _, test := range m.rows() {
		claim, err := rs.claimOf(test, "")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "| **%s**<br>%s |", spell(test), inCell(claim))
		for _, lock := range rs.locks() {
			out.WriteString(" " + rs.cell(test, lock, up) + " |")
		}
		out.WriteString("\n")
	}
	return out.String(), nil
}

func (m *maker) column(lock, up string) string {
	if _, err := m.book.byNumber(lock[:2]); err != nil {
		return strings.ReplaceAll(lock[3:], "-", " ") // chapter 00 has no folder
	}
	return fmt.Sprintf("[%s](%s%s)", lock[:2], up, lock)
}

// rows are all stories in the order in which a reader meets them.
func (m *maker) rows() []string {
	var all []string
	for _, ch := range m.book.chapters {
		for _, t := range ch.tests {
			if !slices.Contains(all, t.name) {
				all = append(all, t.name)
			}
		}
	}
	return all
}

func (rs *records) cell(test, lock, up string) string {
	r, err := rs.find(test, lock, lock[:2])
	if err != nil {
		return "–"
	}
	_, t, _ := rs.home(test, lock) // find has found it
	word := "holds"
	if r.breaks() {
		word = "**breaks:** " + r.Verdict
	}
	return fmt.Sprintf("[%s](%s%s#L%d)", word, up, t.file, t.line)
}
