// Demo sells 100 items with ten worker processes on real Redis servers, breaks the servers, and tells who has oversold.
//
// Each worker reads the stock, works for a moment, and writes the stock less one. Only the lock keeps two of them from
// reading the same number. Every chapter's lock goes through every act, on servers and with workers of its own:
//
//	go run ./07-failover-demo/demo                   everything, in about a minute and a half
//	go run ./07-failover-demo/demo -lock 03,06       some locks
//	go run ./07-failover-demo/demo -act 2            one act; -act wait measures what WAIT is worth
//	go run ./07-failover-demo/demo -metrics :9101    and serve what the workers' monitors count
//
// The exit code is 1 when an outcome is not the documented one. Without redis-server the acts that need none run
// on embedded nodes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/redislock/internal/redistest"
)

type options struct {
	acts     []act
	locks    []lock
	cast     cast
	wait     bool // the act about WAIT too
	json     bool
	keep     bool
	embedded bool
	record   string        // the file that gets the output
	metrics  string        // where Prometheus finds the numbers,
	board    *board        // and which, if it is to find any
	watch    func(history) // gets what the workers have told, if there is one
}

func main() {
	if spec := os.Getenv(workerEnv); spec != "" {
		exit(work(spec))
	}
	redis.SetLogger(quiet{})
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		exit(err)
	}
	// The first Ctrl-C ends the run and cleans up; after a second one the system has to.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	if o.record != "" {
		exit(record(ctx, o, o.record))
	}
	log := os.Stdout
	if o.json {
		log = os.Stderr
	}
	exit(perform(ctx, o, os.Stdout, newReport(log)))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	lockNames := flags.String("lock", "", "which locks, such as 03,06 (default all)")
	actNames := flags.String("act", "", "which acts, such as 2,4,wait (default all)")
	quick := flags.Bool("quick", false, "four workers and shorter faults")
	o := options{cast: cast{workers: 10, outage: 1500 * time.Millisecond}}
	flags.BoolVar(&o.json, "json", false, "print the results as JSON")
	flags.BoolVar(&o.keep, "keep", false, "keep the servers' folders, and say where they are")
	flags.StringVar(&o.metrics, "metrics", "", "serve the workers' numbers to Prometheus at an address such as :9101")
	flags.StringVar(&o.record, "record", "", "put the output into this README, between its markers")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("what is %q? Locks and acts are named by -lock and -act", flags.Arg(0))
	}
	if *quick {
		o.cast = cast{workers: 4, outage: 500 * time.Millisecond}
	}
	_, there := redistest.Available()
	o.embedded = !there
	var err error
	if o.locks, err = chooseLocks(*lockNames); err != nil {
		return o, err
	}
	o.acts, o.wait, err = chooseActs(*actNames)
	return o, err
}

func chooseLocks(names string) ([]lock, error) {
	if names == "" {
		return locks, nil
	}
	var some []lock
	for _, name := range strings.Split(names, ",") {
		l, ok := findLock(name)
		if !ok {
			return nil, fmt.Errorf("there is no lock %q: they are %s to %s", name, locks[0].number(), locks[len(locks)-1].number())
		}
		some = append(some, l)
	}
	return some, nil
}

func chooseActs(names string) (some []act, wait bool, err error) {
	if names == "" {
		return acts, true, nil
	}
	for _, name := range strings.Split(names, ",") {
		if name == "wait" {
			wait = true
			continue
		}
		a, ok := findAct(name)
		if !ok {
			return nil, false, fmt.Errorf("there is no act %q: they are 1 to %d, and wait", name, len(acts))
		}
		some = append(some, a)
	}
	return some, wait, nil
}

// perform plays all that was asked for, and fails if something is not as documented.
func perform(ctx context.Context, o options, out io.Writer, r *report) error {
	start := time.Now()
	if o.embedded {
		r.line("no redis-server (apt-get install redis-server, or brew install redis): " +
			"what needs none runs on embedded nodes")
	}
	if o.metrics != "" {
		o.board = &board{}
		url, stop, err := o.board.serve(o.metrics)
		if err != nil {
			return err
		}
		defer func() { _ = stop() }()
		r.line("the workers' numbers, for Prometheus: %s", url)
	}
	results := playAll(ctx, o, r)
	waits, err := playWait(ctx, o, r)
	if ctx.Err() != nil {
		return errors.New("interrupted; all that was started has ended")
	}
	if err != nil {
		return err
	}
	if o.json {
		err = json.NewEncoder(out).Encode(map[string]any{"results": results, "wait": waits})
	} else if len(results) > 0 {
		r.table(results, o)
	}
	r.line("\n%.0f seconds in all.", time.Since(start).Seconds())
	return errors.Join(err, asSaid(results, waits))
}

func playAll(ctx context.Context, o options, r *report) (results []result) {
	for _, a := range o.acts {
		if why := a.impossible(o.embedded); why != "" {
			r.line("\nAct %s is left out: it needs %s", a.name, why)
			continue
		}
		r.line("\nAct %s: %s", a.name, a.title)
		for _, l := range o.locks {
			if l.nodes == 0 && a.name != "1" {
				continue // there is nothing in these acts that a mutex would notice
			}
			x := run(ctx, a, l, o, r)
			if ctx.Err() != nil {
				return results
			}
			r.result(x)
			results = append(results, x)
		}
	}
	return results
}

func playWait(ctx context.Context, o options, r *report) ([]waited, error) {
	if !o.wait || o.embedded || ctx.Err() != nil {
		return nil, nil
	}
	r.line("\nAct wait: a replica is cut off, and WAIT is asked whether it has the lock's key")
	all, err := runWait(ctx, o.keep)
	if err == nil {
		r.wait(all)
	}
	return all, err
}

// asSaid fails if an outcome is not the documented one.
func asSaid(results []result, waits []waited) error {
	var wrong []string
	for _, x := range results {
		if !x.AsSaid {
			wrong = append(wrong, fmt.Sprintf("act %s with %s", x.Act, x.Lock))
		}
	}
	for _, w := range waits {
		if w.said != [2]int{w.Confirmed, w.There} {
			wrong = append(wrong, "act wait: "+w.Way)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("not as documented: %s", strings.Join(wrong, "; "))
	}
	return nil
}
