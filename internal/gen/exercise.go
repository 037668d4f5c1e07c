package main

import (
	"errors"
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// gap is a declaration that the reader is to write.
type gap struct {
	name  string
	hints []string // each says more than the one before
}

// gaps are those that a chapter lists in testdata/exercise.txt, which explains its format.
func (b *book) gaps(ch chapter) ([]gap, error) {
	name := ch.dir + "/testdata/exercise.txt"
	text, err := readText(filepath.Join(b.root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	var all []gap
	for i, fields := range paragraphs(text) {
		var g gap
		for _, f := range fields {
			switch f.key {
			case "write":
				g.name = f.value
			case "hint":
				g.hints = append(g.hints, f.value)
			default:
				return nil, fmt.Errorf("%s: entry %d: unknown key %q: there are write and hint", name, i+1, f.key)
			}
		}
		if g.name == "" || len(g.hints) == 0 {
			return nil, fmt.Errorf("%s: entry %d needs write and hint", name, i+1)
		}
		all = append(all, g)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s lists nothing to write", name)
	}
	return all, nil
}

// patch is an edit of a text: what is between two offsets becomes something else.
type patch struct {
	start, end int
	text       string
}

func applyPatches(text string, all []patch) string {
	slices.SortFunc(all, func(x, y patch) int { return y.start - x.start }) // from the end, so that offsets stay right
	for _, p := range all {
		text = text[:p.start] + p.text + text[p.end:]
	}
	return text
}

// skeleton is a lock.go without the gaps. It compiles, and its tests fail.
func skeleton(ch chapter, lock string, gaps []gap) (string, error) {
	s, err := parseSource(lock)
	if err != nil {
		return "", err
	}
	var patches []patch
	for _, g := range gaps {
		node, err := s.declared(g.name)
		if err != nil {
			return "", err
		}
		p, err := s.hollow(node, g.name)
		if err != nil {
			return "", err
		}
		patches = append(patches, p)
	}
	text, err := blankImports(applyPatches(lock, patches))
	return "// An exercise: write what says \"write this\". An import marked _ waits for your code: take the _ away.\n" +
		"// make try CH=" + ch.number + " judges this file by the tests of " + ch.dir + ".\n\n" + text, err
}

// hollow takes out a function's body, or of a script all but its first line, which says what the answers mean.
func (s source) hollow(n ast.Node, name string) (patch, error) {
	if fn, ok := n.(*ast.FuncDecl); ok {
		body := "{\n\t// write this\n" + returnNothing(s, fn) + "}"
		start, end := s.span(fn.Body)
		return patch{start, end, body}, nil
	}
	start, end := s.span(n)
	script := s.text[start:end]
	first, _, found := strings.Cut(script, "\n")
	if !found || !strings.HasSuffix(script, "`") {
		return patch{}, fmt.Errorf("%s is neither a function nor a script", name)
	}
	return patch{start, end, first + "\n-- write this`"}, nil
}

// returnNothing is the return statement of a function that is not written yet.
func returnNothing(s source, fn *ast.FuncDecl) string {
	if fn.Type.Results == nil {
		return ""
	}
	var values []string
	for _, result := range fn.Type.Results.List {
		start, end := s.span(result.Type)
		value := "*new(" + s.text[start:end] + ")"
		switch typ := s.text[start:end]; {
		case typ == "error":
			value = fmt.Sprintf("errors.New(%q)", fn.Name.Name+" is not written yet")
		case typ == "bool":
			value = "false"
		case typ == "string":
			value = `""`
		case strings.HasPrefix(typ, "int"), typ == "time.Duration":
			value = "0"
		case strings.HasPrefix(typ, "*"):
			value = "nil"
		case typ == "time.Time":
			value = "time.Time{}"
		}
		for range max(1, len(result.Names)) {
			values = append(values, value)
		}
	}
	return "\treturn " + strings.Join(values, ", ") + "\n"
}

// blankImports marks with _ what is imported from the standard library and not used any more.
func blankImports(text string) (string, error) {
	s, err := parseSource(text)
	if err != nil {
		return "", err
	}
	used := map[string]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok {
				used[x.Name] = true
			}
		}
		return true
	})
	var patches []patch
	for _, spec := range s.file.Imports {
		from := strings.Trim(spec.Path.Value, `"`)
		start, end := s.at(spec.Pos()), s.at(spec.Pos())
		name, mark := path.Base(from), "_ "
		if spec.Name != nil {
			name, mark = spec.Name.Name, "_"
			end = s.at(spec.Name.End())
		}
		if !strings.Contains(from, ".") && !used[name] {
			patches = append(patches, patch{start, end, mark})
		}
	}
	return applyPatches(text, patches), nil
}

// desk is the file that the reader writes in. The go command and git leave the folder alone: its name begins with _.
func desk(ch chapter) string { return "_exercise/" + ch.dir + "/lock.go" }

// setExercise puts a skeleton on the reader's desk.
func setExercise(b *book, ch chapter, p *paper) error {
	gaps, lock, err := b.task(ch)
	if err != nil {
		return err
	}
	text, err := skeleton(ch, lock, gaps)
	if err != nil {
		return err
	}
	if err := create(b.root, desk(ch), text); err != nil {
		return err
	}
	p.print("%s has the lock of chapter %s without\n", desk(ch), ch.number)
	for _, g := range gaps {
		p.print("  %s\n", p.in(cyan, g.name))
	}
	p.print("Write them. Hints stand in %s/README.md.\n", ch.dir)
	p.print("  make try CH=%s       judges what you have written by the chapter's tests\n", ch.number)
	p.print("  make solution CH=%s  shows how the chapter's lock differs from yours\n", ch.number)
	return nil
}

// create writes a new file in a folder. It replaces one only with FORCE=1, for it may be somebody's work.
func create(folder, name, text string) error {
	file := filepath.Join(folder, filepath.FromSlash(name))
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if os.Getenv("FORCE") == "1" {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, flags, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already: with FORCE=1 it is replaced", name)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// task is what there is to write, and the lock that it belongs to.
func (b *book) task(ch chapter) ([]gap, string, error) {
	gaps, err := b.gaps(ch)
	if err != nil {
		return nil, "", err
	}
	lock, err := readText(filepath.Join(b.root, ch.dir, "lock.go"))
	return gaps, lock, err
}

// written is what is on the reader's desk.
func (b *book) written(ch chapter) (string, error) {
	text, err := readText(filepath.Join(b.root, filepath.FromSlash(desk(ch))))
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no %s yet. Type: make exercise CH=%s", desk(ch), ch.number)
	}
	return text, err
}

// tryExercise judges what the reader has written: first by the chapter's stories, and then by all of its tests. It stops at
// the first test that fails.
func tryExercise(b *book, ch chapter, p *paper) error {
	lock, err := b.written(ch)
	if err != nil {
		return err
	}
	var stories []string
	for _, t := range ch.tests {
		stories = append(stories, t.name)
	}
	for _, run := range []string{"^(" + strings.Join(stories, "|") + ")$", "."} {
		j, err := b.judge(ch, lock, "-failfast", "-run="+run)
		if err != nil {
			return err
		}
		if !j.passed {
			p.print("%s", strings.ReplaceAll(cut(j.output, 200), ch.dir+"/lock.go:", desk(ch)+":"))
			return silent{}
		}
	}
	p.print("%s All tests of chapter %s pass. They ran in virtual time; go test ./%s also uses real servers.\n",
		p.in(green, "Yours holds."), ch.number, ch.dir)
	return nil
}

// showSolution shows the way from the reader's file to the chapter's lock.
func showSolution(b *book, ch chapter, p *paper) error {
	yours, err := b.written(ch)
	if err != nil {
		return err
	}
	real, err := b.lockSide(ch)
	if err != nil {
		return err
	}
	real.from = 0
	p.print("%s", coloured(p, unified(side{name: desk(ch), lines: splitLines(yours)}, real)))
	return nil
}

// checkExercises makes sure of each chapter that its skeleton compiles and fails, and that the lock put in passes.
func checkExercises(b *book, args []string, p *paper) error {
	wrong := 0
	for _, ch := range b.chapters {
		if len(args) > 0 && !slices.Contains(args, ch.number) {
			continue
		}
		if !b.hasText(ch) {
			p.print("%s  has no README.md yet, so it needs no exercise\n", ch.number)
			continue
		}
		failed, err := b.checkExercise(ch)
		if err != nil {
			wrong++
			p.print("%s  %s %s\n", ch.number, p.in(red, "WRONG:"), err)
			continue
		}
		p.print("%s  the skeleton compiles and fails %s, the lock put in passes\n", ch.number, failed)
	}
	if wrong > 0 {
		return fmt.Errorf("%d exercises are wrong", wrong)
	}
	return nil
}

// checkExercise returns a test that the skeleton fails.
func (b *book) checkExercise(ch chapter) (failed string, err error) {
	gaps, lock, err := b.task(ch)
	if err != nil {
		return "", err
	}
	text, err := skeleton(ch, lock, gaps)
	if err != nil {
		return "", err
	}
	j, err := b.judge(ch, text, "-run=^Test", "-failfast")
	switch {
	case err != nil:
		return "", err
	case !j.built:
		return "", errors.New("the skeleton doesn't compile\n" + j.output)
	case len(j.tests()) == 0:
		return "", errors.New("no test fails with the skeleton\n" + cut(j.output, 40))
	}
	failed = j.tests()[0]
	if j, err = b.judge(ch, lock); err == nil && !j.passed {
		err = errors.New("the lock put in does not pass\n" + cut(j.output, 40))
	}
	return failed, err
}

// exercise is the list of what a chapter's reader may write, with hints to unfold.
func (m *maker) exercise(p page, _ []string) (string, error) {
	ch, err := m.book.ofPage(p)
	if err != nil {
		return "", err
	}
	gaps, err := m.book.gaps(ch)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, g := range gaps {
		fmt.Fprintf(&out, "- `%s`\n", g.name)
		for i, hint := range g.hints {
			fmt.Fprintf(&out, "  <details><summary>Hint %d</summary>\n\n%s  </details>\n", i+1, wrap(hint, "  "))
		}
	}
	return out.String(), nil
}
