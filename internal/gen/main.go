// Gen writes down what the locks do, so that nobody has to type it.
//
// The READMEs show timelines, verdicts, diffs and the output of commands. Typed by hand, such things are wrong after
// the next change, and nobody notices. So each of them stands between two markers, and gen fills in what a run of
// the tests gives now:
//
//	<!-- gen:timeline TestGetThenDelInterleaved 02 -->
//	...
//	<!-- /gen -->
//
// The kinds of blocks are listed in kinds.go. How it is used:
//
//	go run ./internal/gen            rewrites the blocks
//	go run ./internal/gen -check     writes nothing, shows what has drifted, and then fails; looks at the text too:
//	                                 do its links, tests and commands exist, and is no Go code pasted into it
//	go run ./internal/gen tour [NN]  the walk through all chapters, or through some
//	go run ./internal/gen story NN   the stories of one chapter
//	go run ./internal/gen diff NN    what changed in lock.go since the chapter that it goes on from
//	go run ./internal/gen break NN   the lock before, judged by this chapter's tests
//	go run ./internal/gen explore    what the explorations find
//	go run ./internal/gen breakit    makes the changes that the chapters list, and checks what fails; [NN [N]] for some
//	go run ./internal/gen exercise NN  a skeleton of the lock for the reader to write; try judges it, solution shows the rest
//	go run ./internal/gen exercises    checks that each skeleton fails, and that the lock put in passes
//	go run ./internal/gen lift NN DEST PACKAGE  copies a lock into another module, with a smoke test
//
// It doesn't import the chapters: it runs their tests and reads what they record. So it works, and says what is
// wrong, while a chapter doesn't even compile.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	err := run(os.Args[1:])
	var s silent
	if err != nil && !errors.As(err, &s) {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil {
		os.Exit(1)
	}
}

// silent is a failure that has been explained already.
type silent struct{}

func (silent) Error() string { return "failed" }

func run(args []string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	b, err := openBook(root)
	if err != nil {
		return err
	}
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	if command == "" || command == "-check" || command == "--check" {
		if len(args) > 0 {
			return fmt.Errorf("gen takes no %q here", args[0])
		}
		return rewriteAll(b, command != "", os.Stdout)
	}
	if !knows(command) {
		return fmt.Errorf("gen can't %q: its documentation says what it can", command)
	}
	if do, ok := ofAll[command]; ok {
		return do(b, args, newPaper(os.Stdout))
	}
	ch, err := b.one(command, args)
	if err != nil {
		return err
	}
	return ofOneChapter[command](b, ch, newPaper(os.Stdout))
}

// ofOneChapter are the commands that need a chapter.
var ofOneChapter = map[string]func(*book, chapter, *paper) error{
	"story": stories, "diff": showDiff, "break": breakIt,
	"exercise": setExercise, "try": tryExercise, "solution": showSolution,
}

// ofAll are the others.
var ofAll = map[string]func(*book, []string, *paper) error{
	"tour": tour, "explore": explore, "breakit": tryChanges, "exercises": checkExercises, "lift": lift,
}

// knows reports whether there is such a command.
func knows(command string) bool { return ofOneChapter[command] != nil || ofAll[command] != nil }

// moduleRoot is the module that the working directory is in.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return moduleAbove(dir)
}

// moduleAbove is the nearest folder, from this one upwards, with a go.mod.
func moduleAbove(dir string) (string, error) {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod here or above: run this inside the repository")
		}
		dir = parent
	}
}

// paper is where something is written for people to read.
type paper struct {
	io.Writer
	colour bool
}

// newPaper uses colour on a terminal only, and never against NO_COLOR.
func newPaper(f *os.File) *paper {
	return &paper{Writer: f, colour: terminal(f) && os.Getenv("NO_COLOR") == ""}
}

func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

const red, green, cyan, bold, plain = "\x1b[31;1m", "\x1b[32;1m", "\x1b[36m", "\x1b[1m", "\x1b[0m"

// in colours a text, if there is colour. A line break at the end stays outside.
func (p *paper) in(colour, text string) string {
	if !p.colour {
		return text
	}
	body := strings.TrimSuffix(text, "\n")
	return colour + body + plain + text[len(body):]
}

func (p *paper) print(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// wrap breaks a text between words into lines that fit into a terminal, all of them indented.
func wrap(text, indent string) string {
	const columns = 96
	var out strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if len([]rune(line))+1+len([]rune(word)) > columns && line != indent {
			out.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return out.String() + line + "\n"
}
