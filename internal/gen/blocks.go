package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// page is one Markdown file.
type page struct {
	name  string // slash path from the root: README.md, 03-safe-release/README.md
	lines []string
}

// block is what stands between two markers.
type block struct {
	kind, args string
	open       int // index of the line with the opening marker
	close      int // and of the closing one
}

const closing = "<!-- /gen -->"

var opening = regexp.MustCompile(`^<!-- gen:(\S+)(.*?)\s*-->$`)

// blocks finds the blocks of a page. Markers inside a fenced code block are examples.
func (p page) blocks() ([]block, error) {
	var all []block
	var errs []error
	inside, fenced := false, false
	for i, line := range p.lines {
		switch {
		case !inside && strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced:
		case strings.HasPrefix(line, "<!-- gen:"):
			if inside {
				errs = append(errs, p.at(all[len(all)-1].open, "this block has no "+closing))
			}
			m := opening.FindStringSubmatch(line)
			if m == nil {
				errs = append(errs, p.at(i, "not a marker: it should read <!-- gen:KIND ARGS -->"))
				m = []string{"", "", ""}
			}
			all = append(all, block{kind: m[1], args: strings.TrimSpace(m[2]), open: i})
			inside = true
		case line == closing && inside:
			all[len(all)-1].close = i
			inside = false
		case line == closing:
			errs = append(errs, p.at(i, closing+" closes nothing"))
		}
	}
	if inside {
		errs = append(errs, p.at(all[len(all)-1].open, "this block has no "+closing))
	}
	return all, errors.Join(errs...)
}

func (p page) at(line int, text string) error { return fmt.Errorf("%s:%d: %s", p.name, line+1, text) }

// folder is where the page lives, "" for the root.
func (p page) folder() string {
	folder, _, found := strings.Cut(p.name, "/")
	if !found {
		return ""
	}
	return folder
}

// fill gives the page as it should be, and a diff for each block that isn't yet so.
func (p page) fill(m *maker) (lines []string, drifted []string, err error) {
	all, err := p.blocks()
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	end := 0
	for _, bl := range all {
		text, err := m.make(p, bl)
		if err != nil {
			errs = append(errs, p.at(bl.open, err.Error()))
			continue
		}
		old, now := p.lines[bl.open+1:bl.close], splitLines(text)
		if !slices.Equal(old, now) {
			name := fmt.Sprintf("%s:%d: %s", p.name, bl.open+1, strings.TrimSpace(bl.kind+" "+bl.args))
			drifted = append(drifted, unified(side{name: name + ", as it is", lines: old}, side{name: name + ", as a run makes it", lines: now}))
		}
		lines = append(append(lines, p.lines[end:bl.open+1]...), now...)
		end = bl.close
	}
	return append(lines, p.lines[end:]...), drifted, errors.Join(errs...)
}

// pages are all Markdown files.
func (b *book) pages() ([]page, error) {
	var all []page
	err := eachFile(b.root, ".md", func(name string) error {
		text, err := readText(filepath.Join(b.root, filepath.FromSlash(name)))
		all = append(all, page{name: name, lines: splitLines(text)})
		return err
	})
	return all, err
}

// rewriteAll fills the blocks of all pages, or only says which of them have drifted. With an error in any page
// it writes none.
func rewriteAll(b *book, check bool, out io.Writer) error {
	if os.Getenv(nested) != "" {
		return errors.New("a block can't contain the output of gen filling blocks")
	}
	pages, err := b.pages()
	if err != nil {
		return err
	}
	m := newMaker(b)
	var errs []error
	changed := map[string][]string{}
	drifts := 0
	for _, p := range pages {
		lines, drifted, err := p.fill(m)
		errs = append(errs, err)
		if len(drifted) > 0 {
			changed[p.name] = lines
			drifts += len(drifted)
		}
		if check {
			fmt.Fprint(out, strings.Join(drifted, ""))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if check {
		complaints, err := checkProse(b, pages)
		if err != nil {
			return err
		}
		return verdict(out, m.made, drifts, complaints)
	}
	fmt.Fprintf(out, "%d blocks in %d pages, %d rewritten\n", m.made, len(pages), drifts)
	return write(b, changed)
}

func verdict(out io.Writer, blocks, drifts int, complaints []string) error {
	for _, complaint := range complaints {
		fmt.Fprintln(out, complaint)
	}
	if len(complaints) > 0 {
		fmt.Fprintf(out, "\n%d things in the text are wrong.\n", len(complaints))
	}
	if drifts > 0 {
		fmt.Fprintf(out, "\n%d of %d blocks have drifted. Run make gen, and look at what changes.\n", drifts, blocks)
	}
	if drifts+len(complaints) > 0 {
		return silent{}
	}
	fmt.Fprintf(out, "%d blocks, none has drifted\n", blocks)
	return nil
}

func write(b *book, changed map[string][]string) error {
	for name, lines := range changed {
		if err := os.WriteFile(filepath.Join(b.root, filepath.FromSlash(name)), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
