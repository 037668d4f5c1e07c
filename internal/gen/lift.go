package main

import (
	_ "embed"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

//go:embed smoke.tmpl
var smokeText string

var smoke = template.Must(template.New("smoke").Parse(smokeText))

// lifted is a lock on its way into another module.
type lifted struct {
	Package string
	Dir     string // where it comes from: 04-watchdog
	Path    string // where it goes, from the root of its new module: ./lock
	Nodes   bool   // New takes a list of clients, as from chapter 6 on
}

// firstLiftable is the first chapter whose lock has no flaw on purpose.
const firstLiftable = "03"

// lift copies a chapter's lock into another module, with its origin, its licence and a smoke test: lift NN DEST [PACKAGE].
func lift(b *book, args []string, p *paper) error {
	if len(args) < 2 || args[1] == "" {
		return errors.New("say which lock, and where it goes. Type for example: make lift CH=04 DEST=../shop/lock PKG=lock")
	}
	ch, err := b.one("lift", args[:1])
	if err != nil {
		return err
	}
	if ch.number < firstLiftable {
		return fmt.Errorf("the lock of chapter %s has flaws on purpose, for teaching: lift %s or a later one", ch.number, firstLiftable)
	}
	dest, err := filepath.Abs(args[1])
	if err != nil {
		return err
	}
	module, err := moduleAbove(dest)
	if err != nil {
		return fmt.Errorf("%s is in no Go module: type there go mod init", args[1])
	}
	path, err := filepath.Rel(module, dest)
	if err != nil {
		return err
	}
	l := lifted{Dir: ch.dir, Path: "./" + filepath.ToSlash(path)}
	if len(args) > 2 {
		l.Package = args[2]
	}
	if err := l.copy(b, dest); err != nil {
		return err
	}
	return l.sayWhatIsLeft(b, module, p)
}

// copy writes the two files.
func (l *lifted) copy(b *book, dest string) error {
	text, err := readText(filepath.Join(b.root, l.Dir, "lock.go"))
	if err != nil {
		return err
	}
	licence, err := readText(filepath.Join(b.root, "LICENSE"))
	if err != nil {
		return err
	}
	s, err := parseSource(text)
	if err != nil {
		return err
	}
	if l.Package == "" {
		l.Package = s.file.Name.Name
	}
	if !token.IsIdentifier(l.Package) {
		return fmt.Errorf("%q can't be the name of a package", l.Package)
	}
	start, end := s.span(s.file.Name)
	text = text[:start] + l.Package + text[end:]
	text = packageIntro.ReplaceAllString(text, "// Package "+l.Package+" is ")
	l.Nodes = takesNodes(s)
	var test strings.Builder
	if err := smoke.Execute(&test, l); err != nil {
		return err
	}
	head := "Copied from example.com/redislock, folder " + l.Dir + ", " + b.commit(l.Dir) + ". Its tests are there.\n\n" + licence
	if err := create(dest, "lock.go", commented(head)+"\n"+text); err != nil {
		return err
	}
	return create(dest, "lock_test.go", test.String())
}

var packageIntro = regexp.MustCompile(`(?m)\A// Package \w+ is chapter \w+: `)

// takesNodes reports whether New takes a list of clients.
func takesNodes(s source) bool {
	node, err := s.declared("New")
	fn, ok := node.(*ast.FuncDecl)
	if err != nil || !ok || len(fn.Type.Params.List) == 0 {
		return false
	}
	_, list := fn.Type.Params.List[0].Type.(*ast.ArrayType)
	return list
}

// commit says which version of a folder this is.
func (b *book) commit(dir string) string {
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = b.root
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	commit := git("rev-parse", "--short", "HEAD")
	switch {
	case commit == "":
		return "commit unknown"
	case git("status", "--porcelain", "--", dir+"/lock.go") != "":
		return "commit " + commit + " with changes"
	}
	return "commit " + commit
}

func commented(text string) string {
	var out strings.Builder
	for _, line := range splitLines(text) {
		out.WriteString(strings.TrimRight("// "+line, " ") + "\n")
	}
	return out.String()
}

var redisVersion = regexp.MustCompile(`(?m)^\s*(?:require )?(github\.com/redis/go-redis/v9) (v\S+)`)

// sayWhatIsLeft says what there is to do in the other module.
func (l *lifted) sayWhatIsLeft(b *book, module string, p *paper) error {
	mod, err := os.ReadFile(filepath.Join(b.root, "go.mod"))
	if err != nil {
		return err
	}
	version := redisVersion.FindStringSubmatch(string(mod))
	if version == nil {
		return errors.New("go.mod requires no go-redis")
	}
	addr := "localhost:6379"
	if l.Nodes {
		addr = "host1:6379,host2:6379,host3:6379"
	}
	p.print("%s is now package %s in %s of %s: lock.go, and lock_test.go, a smoke test.\n", l.Dir, l.Package, l.Path, module)
	p.print("\nThere, type\n")
	p.print("  go get %s@%s\n", version[1], version[2])
	p.print("  REDIS_ADDR=%s go test -v -run 'TestLock$' %s\n", addr, l.Path)
	p.print("\nGive your client the options of the one in lock_test.go: ContextTimeoutEnabled and a short ReadTimeout.\n")
	p.print("What the server and the work need: %s/README.md, \"Taking it to production\".\n", l.Dir)
	return nil
}
