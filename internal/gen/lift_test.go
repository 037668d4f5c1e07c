package main

import (
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// yard is a shelf whose chapter 3 can be lifted, and a module beside it.
func yard(t *testing.T) (b *book, dest string) {
	t.Setenv("FORCE", "")
	b = shelf(t, map[string]string{
		"go.mod":  "module example.com/redislock\n\nrequire (\n\tgithub.com/redis/go-redis/v9 v9.8.7\n)\n",
		"LICENSE": "MIT License\n\nCopyright us\n",
		"03-three/lock.go": "// Package three is chapter 3: a lock. More.\npackage three\n\n// Package three stays.\n" +
			"func New(nodes []int, more ...int) int { return 3 }\n",
		"shop/go.mod": "module example.com/shop\n",
	})
	return b, filepath.Join(b.root, "shop", "internal", "lock")
}

func TestLift(t *testing.T) {
	b, dest := yard(t)
	var out strings.Builder
	p := &paper{Writer: &out}
	require.NoError(t, lift(b, []string{"03", dest, "mine"}, p))
	require.Contains(t, out.String(), "03-three is now package mine in ./internal/lock of "+filepath.Join(b.root, "shop")+":")
	require.Contains(t, out.String(), "  go get github.com/redis/go-redis/v9@v9.8.7\n")

	lock, err := os.ReadFile(filepath.Join(dest, "lock.go"))
	require.NoError(t, err)
	require.Equal(t, "// Copied from example.com/redislock, folder 03-three, commit unknown. Its tests are there.\n//\n"+
		"// MIT License\n//\n// Copyright us\n\n"+
		"// Package mine is a lock. More.\npackage mine\n\n// Package three stays.\nfunc New(nodes []int, more ...int) int { return 3 }\n", string(lock))

	require.ErrorContains(t, lift(b, []string{"03", dest, "other"}, p), "lock.go is there already: with FORCE=1 it is replaced")
	t.Setenv("FORCE", "1")
	require.NoError(t, lift(b, []string{"03", dest}, p))
	lock, err = os.ReadFile(filepath.Join(dest, "lock.go"))
	require.NoError(t, err)
	require.Contains(t, string(lock), "\npackage three\n", "the name is the chapter's if none is given")
}

func TestLiftRefuses(t *testing.T) {
	b, dest := yard(t)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"", "", ""}, "make lift CH=04 DEST=../shop/lock PKG=lock"},
		{[]string{"03", ""}, "say which lock, and where it goes"},
		{[]string{"9", dest}, `there is no chapter "9"`},
		{[]string{"02", dest}, "the lock of chapter 02 has flaws on purpose"},
		{[]string{"03", filepath.Join(t.TempDir(), "x")}, "is in no Go module"},
		{[]string{"03", dest, "my-lock"}, `"my-lock" can't be the name of a package`},
	} {
		require.ErrorContains(t, lift(b, tc.args, &paper{Writer: &strings.Builder{}}), tc.want)
	}
	require.NoDirExists(t, dest)
}

// Both forms of the smoke test are Go as gofmt wants it. That they work is shown where the locks are lifted, in CI.
func TestSmokeTestIsFormatted(t *testing.T) {
	for _, nodes := range []bool{false, true} {
		var text strings.Builder
		require.NoError(t, smoke.Execute(&text, lifted{Package: "lock", Dir: "06-redlock", Path: "./lock", Nodes: nodes}))
		formatted, err := format.Source([]byte(text.String()))
		require.NoError(t, err)
		require.Equal(t, string(formatted), text.String())
	}
}
