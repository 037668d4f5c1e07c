package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// nested is set for the commands of output blocks, so that none of them fills blocks in its turn.
const nested = "REDISLOCK_GEN"

// output is a command and what it prints.
func (m *maker) output(limit, command string) (string, error) {
	most := -1
	if limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 {
			return "", fmt.Errorf("output:%s: that is no number of lines", limit)
		}
		most = n
	}
	text, done := m.outputs[command]
	if !done {
		var err error
		if text, err = m.shell(command); err != nil {
			return "", err
		}
		m.outputs[command] = text
	}
	return fence("console", "$ "+command+"\n"+cut(text, most)), nil
}

// cut leaves the first lines, and says how many there were.
func cut(text string, most int) string {
	lines := splitLines(text)
	if most < 0 || len(lines) <= most {
		return text
	}
	return strings.Join(lines[:most], "\n") + fmt.Sprintf("\n... (%d more lines)\n", len(lines)-most)
}

// runCommand runs one of the few commands that blocks may show, and returns its normalised output.
func runCommand(root, command string) (string, error) {
	words, err := split(command)
	if err != nil {
		return "", err
	}
	if !allowed(words) {
		return "", fmt.Errorf("%q: only go test, go run ./internal/gen and make may be shown", command)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = root, plainEnviron()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	text := normalise(strings.ReplaceAll(out.String(), root, "."))
	if exit != nil && !strings.HasSuffix(text, "exit status 1\n") { // go run says it itself
		text += fmt.Sprintf("(exit status %d)\n", exit.ExitCode())
	}
	return text, nil
}

func allowed(words []string) bool {
	for _, prefix := range [][]string{{"go", "test"}, {"go", "run", "./internal/gen"}, {"make"}} {
		if len(words) >= len(prefix) && slices.Equal(words[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

// plainEnviron is the environment without what makes the same command print something else elsewhere.
func plainEnviron() []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool {
		name, _, _ := strings.Cut(s, "=")
		return strings.HasPrefix(name, "REDISLOCK_") || slices.Contains([]string{"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"}, name)
	})
	return append(env, nested+"=1")
}

// split divides a command into words, as a shell does. There is no shell: no variables, no pipes.
func split(command string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	started := false
	for _, r := range command {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, started = r, true
		case quote == 0 && r == ' ':
			if started {
				words = append(words, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("%q: a quote is not closed", command)
	}
	if started {
		words = append(words, word.String())
	}
	return words, nil
}

var (
	packageLine = regexp.MustCompile(`^((?:ok|FAIL)\s+\S+\s+)(?:[0-9.]+s|\(cached\))`)
	testLine    = regexp.MustCompile(`^(\s*--- (?:PASS|FAIL|SKIP): .*)\([0-9.]+s\)$`)
	speed       = regexp.MustCompile(`\([0-9]+ schedules a second\)`)
	download    = regexp.MustCompile(`(?m)^go: downloading .*\n`)
)

// normalise takes out of a command's output what is different each time: how long it took. The times of a timeline
// are virtual, always the same, and stay.
func normalise(text string) string {
	lines := strings.Split(download.ReplaceAllString(text, ""), "\n")
	for i, line := range lines {
		line = packageLine.ReplaceAllString(line, "${1}…s")
		line = testLine.ReplaceAllString(line, "${1}(…s)")
		line = speed.ReplaceAllString(line, "(… schedules a second)")
		lines[i] = strings.TrimRight(line, " \t\r")
	}
	return strings.Join(lines, "\n")
}
