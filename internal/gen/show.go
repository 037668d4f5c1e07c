package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// showDiff prints what a chapter changes in lock.go.
func showDiff(b *book, ch chapter, p *paper) error {
	diff, err := b.lockDiff(ch, false)
	if err != nil {
		return err
	}
	p.print("%s", coloured(p, diff))
	return nil
}

// breakIt judges the lock before a chapter's own by this chapter's stories, without those that it can't win either.
// It succeeds if that lock fails, because this is what the stories are for.
func breakIt(b *book, ch chapter, p *paper) error {
	var names []string
	for _, t := range ch.tests {
		if !t.limit {
			names = append(names, strings.TrimPrefix(t.name, "Test"))
		}
	}
	args := []string{"test", "./" + ch.dir, "-lock=" + b.before(ch), "-run", "Test(" + strings.Join(names, "|") + ")$"}
	p.print("%s\n", p.in(bold, fmt.Sprintf("$ go %s \\\n    -run '%s'", strings.Join(args[:3], " "), args[4])))
	var out bytes.Buffer
	cmd := goCommand(b, p, args)
	cmd.Stdout = io.MultiWriter(p, &out)
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return fmt.Errorf("\nThat is wrong: lock %s passes the tests of chapter %s, so they don't show its flaw", b.before(ch), ch.number)
	case !errors.As(err, &exit):
		return err
	case !strings.Contains(out.String(), "--- FAIL: Test"):
		return errors.New("\nno test has failed: the tests did not run at all")
	}
	p.print("\n%s\n", p.in(bold, "As it should be: lock "+b.before(ch)+" fails the tests of chapter "+ch.number+", at the steps marked >> above."))
	return nil
}

// explore runs the explorations, and prints what they found without what go test says around it.
func explore(b *book, _ []string, p *paper) error {
	args := []string{"test", "-count=1", "-v", "-run", "Explore"}
	for _, ch := range b.chapters {
		args = append(args, "./"+ch.dir)
	}
	var out bytes.Buffer
	cmd := goCommand(b, p, args)
	cmd.Stdout, cmd.Stderr = &out, &out
	done := progress("exploring; the first time this compiles for a while ...")
	err := cmd.Run()
	done()
	text := out.String()
	if err == nil {
		text = tidy(text)
	}
	p.print("%s", text)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return silent{}
	}
	return err
}

// tidy leaves what tests print through t.Output: without the lines of go test, and without its indentation.
func tidy(text string) string {
	var out []string
	for _, line := range splitLines(text) {
		if strings.HasPrefix(line, "    ") || line == "" && len(out) > 0 && out[len(out)-1] != "" {
			out = append(out, strings.TrimRight(strings.TrimPrefix(line, "    "), " "))
		}
	}
	return strings.TrimSpace(strings.Join(out, "\n")) + "\n"
}

// goCommand is a go command at the root that knows whether to use colour.
func goCommand(b *book, p *paper, args []string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = b.root, os.Environ()
	if p.colour {
		cmd.Env = append(cmd.Env, "REDISLOCK_COLOUR=1")
	}
	return cmd
}
