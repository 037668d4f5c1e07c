package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A code block shows declarations as they stand in a file that compiles, and says which one is missing.
func TestCodeBlocks(t *testing.T) {
	b := shelf(t, map[string]string{"docs/x/a.go": `package x

// most is the limit.
const most = 3

// Lock is a lock.
type Lock[T any] struct{ key string }

type plain struct{}

// Unlock frees it.
func (p *plain) Unlock() int { return most }

// Unlock is a function.
func Unlock() {
	// nothing
}
`})
	block := func(args string) (string, error) {
		return makerOf(b).make(page{name: "docs/x.md"}, block{kind: "code", args: args})
	}
	for args, want := range map[string]string{
		"docs/x/a.go#most":               "// most is the limit.\nconst most = 3",
		"docs/x/a.go#Lock":               "// Lock is a lock.\ntype Lock[T any] struct{ key string }",
		"docs/x/a.go#Unlock":             "// Unlock is a function.\nfunc Unlock() {\n\t// nothing\n}",
		"docs/x/a.go#plain,plain.Unlock": "type plain struct{}\n\n// Unlock frees it.\nfunc (p *plain) Unlock() int { return most }",
	} {
		got, err := block(args)
		require.NoError(t, err)
		require.Equal(t, "```go\n"+want+"\n```\n", got)
	}
	for args, want := range map[string]string{
		"docs/x/a.go#Nothing": "nothing is called Nothing",
		"docs/x/a.go":         "names no declaration",
		"docs/x/b.go#Lock":    "b.go",
	} {
		_, err := block(args)
		require.ErrorContains(t, err, want)
	}
}
