package main

import (
	"fmt"
	"regexp"
	"strings"
)

// edit is a line that stays (' '), goes ('-') or comes ('+').
type edit struct {
	op   byte
	text string
}

// edits finds the shortest way from a to b, by the longest common subsequence. The files here have a few hundred
// lines, so a table of all pairs is small, and nobody needs a diff program.
func edits(a, b []string) []edit {
	common := make([][]int32, len(a)+1) // common[i][j]: how many lines a[i:] and b[j:] can share
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []edit
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[j]})
			j++
		}
	}
	return out
}

// count says how many lines come and go.
func count(all []edit) (added, removed int) {
	for _, e := range all {
		switch e.op {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return added, removed
}

// side is one of two texts that are compared, with a name and the line from which on it is.
type side struct {
	name  string
	lines []string
	from  int // lines before this one, counted from 0, are left out of the comparison
}

const context = 3 // unchanged lines around a change

// unified compares two texts the way "diff -u" does. It is empty if they are equal.
func unified(a, b side) string {
	all := edits(a.lines[a.from:], b.lines[b.from:])
	var out strings.Builder
	lineA, lineB := a.from, b.from
	for start := 0; start < len(all); {
		first, end := hunk(all, start)
		if first < 0 {
			break
		}
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", a.name, b.name)
		}
		stepOver(all[start:first], &lineA, &lineB)
		added, removed := count(all[first:end])
		same := end - first - added - removed
		fmt.Fprintf(&out, "@@ -%s +%s @@%s\n", span(lineA, same+removed), span(lineB, same+added), section(a.lines, lineA))
		for _, e := range all[first:end] {
			fmt.Fprintf(&out, "%c%s\n", e.op, e.text)
		}
		stepOver(all[first:end], &lineA, &lineB)
		start = end
	}
	return out.String()
}

// hunk is the next group of changes with their context. Changes whose contexts touch belong to one hunk.
func hunk(all []edit, start int) (first, end int) {
	first = -1
	quiet := 0
	for i := start; i < len(all); i++ {
		if all[i].op == ' ' {
			quiet++
			if first >= 0 && quiet > 2*context {
				return first, i + 1 - quiet + context
			}
			continue
		}
		if first < 0 {
			first = max(start, i-context)
		}
		quiet = 0
	}
	return first, len(all) - max(0, quiet-context)
}

func stepOver(all []edit, lineA, lineB *int) {
	for _, e := range all {
		if e.op != '+' {
			*lineA++
		}
		if e.op != '-' {
			*lineB++
		}
	}
}

// span is the place of a hunk. An empty one is named after the line before it.
func span(line, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", line)
	case 1:
		return fmt.Sprint(line + 1)
	}
	return fmt.Sprintf("%d,%d", line+1, n)
}

var declaration = regexp.MustCompile(`^(func|type|const|var) \S`)

// section is the declaration before a hunk, which says where in a Go file it is.
func section(lines []string, line int) string {
	for i := line - 1; i >= 0; i-- {
		if declaration.MatchString(lines[i]) {
			return fmt.Sprintf(" %.70s", strings.TrimSuffix(lines[i], " {"))
		}
	}
	return ""
}

// coloured paints a unified diff for a terminal.
func coloured(p *paper, diff string) string {
	lines := splitLines(diff)
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			lines[i] = p.in(bold, line)
		case strings.HasPrefix(line, "@@"):
			lines[i] = p.in(cyan, line)
		case strings.HasPrefix(line, "-"):
			lines[i] = p.in(red, line)
		case strings.HasPrefix(line, "+"):
			lines[i] = p.in(green, line)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// lockDiff compares a chapter's lock.go with the one that it changes. With code it leaves the package documentation out.
func (b *book) lockDiff(ch chapter, code bool) (diff string, err error) {
	old, now, err := b.lockSides(ch)
	if err != nil {
		return "", err
	}
	if !code {
		old.from, now.from = 0, 0
	}
	return unified(old, now), nil
}

// lockSides are the two lock.go, both from their package clauses on.
func (b *book) lockSides(ch chapter) (old, now side, err error) {
	base, err := b.baseOf(ch)
	if err != nil {
		return old, now, err
	}
	if old, err = b.lockSide(base); err == nil {
		now, err = b.lockSide(ch)
	}
	return old, now, err
}

// baseOf is the chapter whose lock.go this one changes: the one before, unless its documentation says otherwise.
func (b *book) baseOf(ch chapter) (chapter, error) {
	i, err := b.byNumber(ch.number)
	switch {
	case err != nil:
		return chapter{}, err
	case i == 0:
		return chapter{}, fmt.Errorf("chapter %s is the first: there is no lock.go before it. Type for example: make diff CH=02", ch.number)
	case ch.base != "":
		i, err = b.byNumber(ch.base)
		return b.chapters[max(i, 0)], err
	}
	return b.chapters[i-1], nil
}

func (b *book) lockSide(ch chapter) (side, error) {
	lines, clause, err := b.lockSource(ch)
	return side{name: ch.dir + "/lock.go", lines: lines, from: clause}, err
}
