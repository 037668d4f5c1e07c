// Benchmarks compares the locks of chapters 3 to 7 with three that people import, on the same real servers and in one run.
//
// It prints a table for each experiment and writes them into README.md, which says what they mean. With -only it runs one
// experiment and writes nothing.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"example.com/redislock/internal/redistest"
)

// scale is how much of everything there is.
type scale struct {
	rounds, batch         int           // of uncontended
	waiters, races        int           // of contended
	race                  time.Duration // how long one takes
	fiveRounds, fiveBatch int           // of fiveNodes
	fiveTime              time.Duration // after which a batch ends early
	handovers, pairs      int           // of handOver
	hold                  time.Duration // on average
	leases                int           // of held
	leaseTTL              time.Duration
}

var full = scale{
	rounds: 25, batch: 200,
	waiters: 32, races: 2, race: 1300 * time.Millisecond,
	fiveRounds: 10, fiveBatch: 50, fiveTime: 300 * time.Millisecond,
	handovers: 2, pairs: 30, hold: 200 * time.Millisecond,
	leases: 10_000, leaseTTL: 18 * time.Second,
}

// experiments have the names of their blocks in README.md.
var experiments = []struct {
	name string
	run  func(redistest.T, scale) table
}{
	{"uncontended", uncontended},
	{"contended", contended},
	{"handover", handOver},
	{"fivenodes", fiveNodes},
	{"held", held},
	{"faults", faults},
}

func main() {
	only := flag.String("only", "", "run one experiment, and write nothing: "+names())
	flag.Parse()
	if err := run(*only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func names() string {
	var all []string
	for _, e := range experiments {
		all = append(all, e.name)
	}
	return strings.Join(all, ", ")
}

func run(only string) error {
	where, err := machine()
	if err != nil {
		return err
	}
	blocks := map[string]string{"machine": where}
	fmt.Print(where)
	for _, e := range experiments {
		if only != "" && only != e.name {
			continue
		}
		fmt.Printf("\n%s\n\n", e.name)
		if err := onStage(func(t redistest.T) { blocks[e.name] = e.run(t, full).String() }); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		fmt.Print(blocks[e.name])
	}
	switch {
	case only == "":
		return rewrite("README.md", blocks)
	case len(blocks) == 1:
		return fmt.Errorf("there is no experiment %q: there are %s", only, names())
	}
	return nil
}
