package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// judgement is what a chapter's tests say about another lock.go.
type judgement struct {
	passed, built bool
	panicked      bool     // the tests ended before they were through
	failed        []string // tests and subtests, in the order of their reports
	output        string
}

// tests are the top-level tests that have failed.
func (j judgement) tests() []string {
	return slices.DeleteFunc(slices.Clone(j.failed), func(name string) bool { return strings.Contains(name, "/") })
}

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	buildError = regexp.MustCompile(`(?m)^FAIL\s.*\[(build|setup) failed\]$`)
	crash      = regexp.MustCompile(`(?m)^(panic|fatal error): `)
)

// judge runs a chapter's tests as if its lock.go had another text. The go command overlays the file: nothing is copied,
// nothing is changed, and the stories, which import the chapter, judge the other text too. Tests on real servers are
// left out, so that the judgement is the same on every machine.
func (b *book) judge(ch chapter, lock string, flags ...string) (judgement, error) {
	dir, err := os.MkdirTemp("", "redislock-judge-")
	if err != nil {
		return judgement{}, err
	}
	defer os.RemoveAll(dir)
	other, overlay := filepath.Join(dir, "lock.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(b.root, ch.dir, "lock.go"): other}})
	if err != nil {
		return judgement{}, err
	}
	if err := errors.Join(os.WriteFile(other, []byte(lock), 0o644), os.WriteFile(overlay, list, 0o644)); err != nil {
		return judgement{}, err
	}
	skip, err := b.onRealServers(ch)
	if err != nil {
		return judgement{}, err
	}
	args := append([]string{"test", "-overlay", overlay, "-vet=off", "-short", "-timeout=90s", "-skip", skip}, flags...)
	cmd := exec.Command("go", append(args, "./"+ch.dir)...)
	cmd.Dir, cmd.Env = b.root, plainEnviron()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return judgement{}, err
	}
	return readJudgement(strings.ReplaceAll(out.String(), other, ch.dir+"/lock.go"), err == nil), nil
}

func readJudgement(output string, passed bool) judgement {
	j := judgement{passed: passed, built: !buildError.MatchString(output), panicked: crash.MatchString(output), output: output}
	for _, m := range failedTest.FindAllStringSubmatch(output, -1) {
		j.failed = append(j.failed, m[1])
	}
	return j
}

// onRealServers is a pattern for go test -skip: the contract's real half, and the tests that start a server.
func (b *book) onRealServers(ch chapter) (string, error) {
	pattern := "/^real$"
	files, err := filepath.Glob(filepath.Join(b.root, ch.dir, "*_test.go"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") && mentions(fn, "redistest") {
				pattern += "|^" + fn.Name.Name + "$"
			}
		}
	}
	return pattern, nil
}

func mentions(n ast.Node, name string) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}
