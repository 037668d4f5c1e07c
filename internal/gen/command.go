package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// command says why a command can't be typed as it stands, "" if it can: make knows the target, go test finds the tests,
// or CI runs it word for word. Other commands need a comment in the line before their code block that says why not:
// <!-- not run: it is for your own module -->
func (c *prose) command(line string) string {
	line, _, _ = strings.Cut(line, " #")
	line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
	if line == "" || strings.HasPrefix(line, "#") || strings.Contains(c.ci, line) {
		return ""
	}
	words, err := split(line)
	if err != nil {
		return err.Error()
	}
	for len(words) > 0 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	complaint := line + ": CI doesn't run this; say why not in a line before: <!-- not run: REASON -->"
	if len(words) == 0 {
		return complaint
	}
	name, args := words[0], words[1:]
	if name == "go" && len(args) > 0 {
		name, args = "go "+args[0], args[1:]
	}
	switch name {
	case "make":
		complaint = c.makeTargets(args)
	case "go test":
		complaint = c.goTest(args)
	case "go run":
		complaint = c.goRun(args)
	}
	return complaint
}

func (c *prose) makeTargets(args []string) string {
	for _, arg := range args {
		name, value, set := strings.Cut(arg, "=")
		if !set && !c.targets[arg] {
			return "make has no target " + arg
		}
		if _, err := c.book.byNumber(value); set && name == "CH" && err != nil {
			return err.Error()
		}
	}
	return ""
}

// goTest looks for the packages, and for something that -run and -bench match in them. The patterns ^$ and - are for none.
func (c *prose) goTest(args []string) string {
	var dirs, patterns []string
	for i, arg := range args {
		flag, value, set := strings.Cut(arg, "=")
		switch {
		case strings.HasPrefix(arg, "./"):
			dirs = append(dirs, path.Clean(arg))
		case flag != "-run" && flag != "-bench":
		case set:
			patterns = append(patterns, value)
		case i+1 < len(args):
			patterns = append(patterns, args[i+1])
		}
	}
	for _, dir := range dirs {
		if !c.isFolder(strings.TrimSuffix(dir, "...")) {
			return "there is no folder " + dir
		}
	}
	for _, pattern := range patterns {
		top, _, _ := strings.Cut(pattern, "/")
		re, err := regexp.Compile(top)
		if err != nil {
			return err.Error()
		}
		if top != "^$" && top != "-" && !c.finds(re, dirs) {
			return "go test finds nothing for " + pattern + " in " + strings.Join(dirs, ", ")
		}
	}
	return ""
}

func (c *prose) isFolder(name string) bool {
	info, err := os.Stat(filepath.Join(c.book.root, filepath.FromSlash(name)))
	return err == nil && info.IsDir()
}

// finds reports whether a pattern matches a test in one of the folders.
func (c *prose) finds(re *regexp.Regexp, dirs []string) bool {
	for name, homes := range c.tests {
		for _, home := range homes {
			for _, dir := range dirs {
				parent, all := strings.CutSuffix(dir, "...")
				if re.MatchString(name) && (home == dir || all && strings.HasPrefix(home+"/", parent)) {
					return true
				}
			}
		}
	}
	return false
}

func (c *prose) goRun(args []string) string {
	switch {
	case len(args) == 0 || !c.isFolder(args[0]):
		return "go run needs a folder that exists"
	case args[0] == "./internal/gen" && len(args) > 1 && !strings.HasPrefix(args[1], "-") && !knows(args[1]):
		return "gen knows no " + args[1]
	}
	return ""
}
