// Command audit looks at the locks in one or several Redis servers, and says what is wrong with them.
//
//	go run ./07-failover-demo/monitor/audit -addr 127.0.0.1:6379
//	go run ./07-failover-demo/monitor/audit -addr rediss://user:password@redis-1:6379/0,redis-2:6379 -max-ttl 1m
//	go run ./07-failover-demo/monitor/audit -cluster -addr redis-1:6379,redis-2:6379
//
// The exit status is 0 if nothing is wrong, 1 if something is, and 2 if a server could not be audited.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	monitor "example.com/redislock/07-failover-demo/monitor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

const (
	nothingWrong = 0
	problems     = 1
	failed       = 2
)

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("audit", flag.ContinueOnError)
	flags.SetOutput(errs)
	var limits monitor.Limits
	addrs := flags.String("addr", "127.0.0.1:6379", "host:port or redis:// URL; several, with commas, are audited one after the other")
	cluster := flags.Bool("cluster", false, "the addresses are nodes of one Redis Cluster")
	timeout := flags.Duration("timeout", time.Minute, "how long the audit of one server or cluster may take")
	flags.StringVar(&limits.Pattern, "pattern", "lock:*", "which keys are locks")
	flags.DurationVar(&limits.MaxTTL, "max-ttl", time.Hour, "report locks with more time left than this")
	flags.IntVar(&limits.Most, "most", 100_000, "stop after so many locks")
	flags.IntVar(&limits.Show, "show", 10, "how many keys of each kind to name")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nothingWrong
	case err != nil:
		return failed
	case flags.NArg() > 0:
		_, _ = fmt.Fprintf(errs, "audit: what is %q? An address needs -addr before it\n", flags.Arg(0))
		return failed
	}
	targets, err := connect(strings.Split(*addrs, ","), *cluster)
	if err != nil {
		_, _ = fmt.Fprintln(errs, err)
		return failed
	}
	status := nothingWrong
	for _, t := range targets {
		status = max(status, audit(ctx, t, *timeout, limits, out, errs))
		_ = t.rdb.Close()
	}
	return status
}

// target is one thing to audit.
type target struct {
	name string
	rdb  redis.UniversalClient
}

func connect(addrs []string, cluster bool) ([]target, error) {
	var all []target
	var options []*redis.Options
	var hosts []string
	for _, addr := range addrs {
		o := &redis.Options{Addr: addr}
		if strings.Contains(addr, "://") {
			var err error
			if o, err = redis.ParseURL(addr); err != nil {
				return nil, err
			}
		}
		options, hosts = append(options, o), append(hosts, o.Addr)
		all = append(all, target{o.Addr, redis.NewClient(o)})
	}
	if !cluster {
		return all, nil
	}
	first := options[0]
	return []target{{"cluster " + strings.Join(hosts, ","), redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: hosts, Username: first.Username, Password: first.Password, TLSConfig: first.TLSConfig,
	})}}, nil
}

func audit(ctx context.Context, t target, timeout time.Duration, limits monitor.Limits, out, errs io.Writer) int {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := monitor.Audit(ctx, t.rdb, limits)
	if err != nil {
		_, _ = fmt.Fprintf(errs, "%s: %v\n", t.name, err)
		return failed
	}
	_, _ = fmt.Fprint(out, text(t.name, r, limits))
	if r.Problems() > 0 {
		return problems
	}
	return nothingWrong
}

// text is the report for people.
func text(name string, r monitor.Report, limits monitor.Limits) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d locks, %d problems\n", name, r.Locks, r.Problems())
	if !r.Complete {
		fmt.Fprintf(&b, "  not complete: stopped after %d locks\n", limits.Most)
	}
	for _, part := range []struct {
		title string
		found monitor.Found
	}{
		{"without a TTL", r.NoTTL},
		{"with more left than " + limits.MaxTTL.String(), r.LongTTL},
		{"no string, so no lock", r.WrongType},
		{"least time left: held, or not renewed, for the longest time", r.Oldest},
	} {
		list(&b, part.title, part.found)
	}
	for _, addr := range r.Evicting() {
		fmt.Fprintf(&b, "  may evict locks: %s has maxmemory-policy %s\n", addr, r.Policies[addr])
	}
	return b.String()
}

func list(b *strings.Builder, title string, found monitor.Found) {
	if found.Count == 0 {
		return
	}
	fmt.Fprintf(b, "  %s: %d\n", title, found.Count)
	for _, k := range found.Keys {
		left := "never expires"
		if k.Left >= 0 {
			left = k.Left.String() + " left"
		}
		fmt.Fprintf(b, "    %-40q %s, %s\n", k.Name, k.Type, left)
	}
	if more := found.Count - len(found.Keys); more > 0 {
		fmt.Fprintf(b, "    and %d more\n", more)
	}
}
