package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"example.com/redislock/internal/redistest"
)

// compared are the modules whose versions matter.
var compared = map[string]bool{
	"github.com/redis/go-redis/v9":     true,
	"github.com/go-redsync/redsync/v4": true,
	"github.com/bsm/redislock":         true,
	"github.com/redis/rueidis":         true,
}

// machine says when and with what the figures were made.
func machine() (string, error) {
	if _, ok := redistest.Available(); !ok {
		return "", fmt.Errorf("no redis-server: apt-get install redis-server, or brew install redis")
	}
	server, err := redistest.Version()
	if err != nil {
		return "", err
	}
	rows := [][]string{
		{"date", time.Now().UTC().Format(time.DateOnly)},
		{"machine", fmt.Sprintf("%d cores, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)},
		{"Go", strings.TrimPrefix(runtime.Version(), "go")},
		{"server", server},
	}
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if compared[m.Path] {
			rows = append(rows, []string{m.Path, m.Version})
		}
	}
	return grid([]string{"made with", ""}, rows, false), nil
}

var marked = regexp.MustCompile(`(?ms)^(<!-- bench:(\w+) -->\n).*?^(<!-- /bench -->)$`)

// rewrite puts the blocks into a page, where it has marks for them. What stands between the marks before is gone.
func rewrite(file string, blocks map[string]string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := fill(string(old), blocks)
	return os.WriteFile(file, []byte(text), 0o644)
}

func fill(page string, blocks map[string]string) string {
	return marked.ReplaceAllStringFunc(page, func(block string) string {
		m := marked.FindStringSubmatch(block)
		if text, ok := blocks[m[2]]; ok {
			return m[1] + text + m[3]
		}
		return block
	})
}
