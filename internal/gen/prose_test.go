package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// complaints are what is wrong with one page of the shelf.
func complaints(t *testing.T, text string) []string {
	t.Helper()
	b := shelf(t, map[string]string{
		"docs/x.md":        text,
		"02-two/README.md": "# 02 · Two: `Get`, then DEL\n\n## Twice\n\n## Twice\n\n<a id=\"door\"></a>\n\n```text\n# no heading\n```\n",
		"Makefile":         "test: ## x\n\tgo test ./...\n",
		".ci/run":          "gofmt -l docs\n",
		"02-two/c_test.go": "package x_test\n\nfunc ExampleNew() {}\n\nfunc BenchmarkNew(b *testing.B) {}\n\nvar _ = \"R4_expired\"\n",
		"_notes/x.md":      "[a](nowhere)",
	})
	pages, err := b.pages()
	require.NoError(t, err)
	all, err := checkProse(b, pages)
	require.NoError(t, err)
	return all
}

func TestProseThatIsRight(t *testing.T) {
	for _, text := range []string{
		"[a](../02-two) [b](../02-two/lock.go) [c](x.md \"title\") [d](https://example.com/x#y) [e](mailto:x@y.z)",
		"# Here\n\n[a](#here) [b](../02-two/README.md#twice) [c](../02-two/README.md#twice-1) [d](../02-two#door)",
		"[a](../02-two/README.md#02--two-get-then-del) [b](../02-two/lock.go#L6) ![c](../02-two/lock.go)",
		"Write `[a](nowhere)` for a link.\n\n```text\n[a](nowhere)\n```",
		"`TestLateDel`, `TestLateDel/02=x`, `R4_expired`, `ExampleNew`, `BenchmarkNew`. Examples are Tests.",
		"`make test`, `go test -v -run 'TestLate|X' ./02-two`, `go test ./...`",
		"```console\n$ make 02       # a comment\nREDIS=1 make test CH=2\n# only a comment\ngofmt -l docs\n\n```",
		"```sh\ngo test -run=LateDel/x -bench New ./...\ngo test -run - -bench=New ./02-two\ngo run ./02-two x\n```",
		"<!-- not run: it is for your module -->\n```sh\ngo get x\n```\n",
		"<!-- not run: there is none yet -->\n`make cake`\n",
		"<!-- gen:code 02-two/lock.go#New -->\n```go\nfunc TestNone()\n```\n<!-- /gen -->\n",
		"````text\n```go\n````\n",
	} {
		require.Empty(t, complaints(t, text), text)
	}
}

func TestProseThatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"\n[a](nowhere.md)":                                 "docs/x.md:2: nowhere.md leads to nothing",
		"[a]: nowhere":                                      "docs/x.md:1: nowhere leads to nothing",
		"<img src=\"x.png\">":                               "docs/x.md:1: x.png leads to nothing",
		"[a](../../..)":                                     "../../.. leads to nothing",
		"[a](#here)":                                        "#here: docs/x.md has no such heading",
		"[a](../02-two#thrice)":                             "../02-two#thrice: 02-two/README.md has no such heading",
		"[a](../02-two/README.md#twice-2)":                  "has no such heading",
		"[a](../02-two/README.md#no-heading)":               "has no such heading",
		"[a](../02-two/lock.go#L7)":                         "../02-two/lock.go#L7: 02-two/lock.go has no such line",
		"`TestNone`":                                        "there is no TestNone",
		"ExampleOld":                                        "there is no ExampleOld",
		"BenchmarkOld":                                      "there is no BenchmarkOld",
		"`TestLateDel/virtual/R4_expires`":                  "no test is called R4_expires",
		"```text\nTestNone\n```":                            "docs/x.md:2: there is no TestNone",
		"`make cake`":                                       "make has no target cake",
		"```console\nmake test CH=9\n```":                   `docs/x.md:2: there is no chapter "9"`,
		"```console\n$ go test ./09-nine\n```":              "there is no folder 09-nine",
		"`go test -run Mutex ./02-two`":                     "go test finds nothing for Mutex in 02-two",
		"`go test -run 'Late(' ./02-two`":                   "missing closing )",
		"`go test -bench=Old ./...`":                        "go test finds nothing for Old in ...",
		"`go run ./internal/none`":                          "go run needs a folder that exists",
		"```sh\ngo get x\n```":                              "docs/x.md:2: go get x: CI doesn't run this",
		"```bash\nmake 'x\n```":                             "a quote is not closed",
		"<!-- not run: -->\n```sh\ngo get x\n```":           "docs/x.md:3: go get x: CI doesn't run this",
		"<!-- not run: y -->\n\n```sh\ngo get\n```":         "docs/x.md:4: go get: CI doesn't run this",
		"<!-- not run: y -->\n```sh\nx\n```\n```sh\nz\n```": "docs/x.md:6: z: CI doesn't run this",
		"a\n```go\nx := 1\n```":                             "docs/x.md:2: pasted Go code",
		"<!-- gen:matrix -->\n[a](nowhere)\n<!-- /gen -->":  "docs/x.md:2: nowhere leads to nothing",
		"<!-- gen:code a.go#b -->\n```go\n```\n<!-- /gen -->\n```go\nTestFalse\n```": "docs/x.md:6: there is no TestFalse",
	} {
		require.Contains(t, strings.Join(complaints(t, text), "\n"), want, text)
	}
}

// A page without a single block is checked too, and check fails when something in it is wrong.
func TestCheckLooksAtTheText(t *testing.T) {
	t.Setenv(nested, "")
	b := shelf(t, map[string]string{"CHANGES.md": "[a](nowhere)\n"})
	var out strings.Builder
	require.ErrorAs(t, rewriteAll(b, true, &out), &silent{})
	require.Equal(t, "CHANGES.md:1: nowhere leads to nothing\n\n1 things in the text are wrong.\n", out.String())
}
