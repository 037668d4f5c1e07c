package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/redis/go-redis/v9"

	"example.com/redislock/07-failover-demo/monitor"
)

// tellEach is how often a worker tells its numbers.
const tellEach = 200 * time.Millisecond

// watch lets a monitor count what the worker's lock and its clients do. Its numbers go the way of the worker's events, because
// a worker that is stopped could not answer a scrape.
func (w *worker) watch(clients []redis.UniversalClient) {
	m := monitor.New()
	for i, rdb := range clients {
		rdb.AddHook(m.Hook(fmt.Sprintf("node-%d", i+1)))
	}
	w.try = monitored(m, w.try, w.lock.errs)
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	w.numbers = func() {
		if text, err := inText(registry); err == nil {
			w.tell(event{What: counted, Numbers: text})
		}
	}
	go func() {
		for range time.Tick(tellEach) {
			w.numbers()
		}
	}()
}

// monitored counts what comes of try, and of the leases' Unlock.
func monitored(m *monitor.Monitor, try tryLock, errs monitor.Errors) tryLock {
	locks := monitor.Wrap(m, lockKey, source(try), errs)
	return func(ctx context.Context, key string, ttl time.Duration) (lease, error) {
		k, err := locks.TryLock(ctx, key, ttl)
		if err != nil {
			return nil, err
		}
		return k, nil
	}
}

// source is a chapter's locker, as the monitor wants it.
type source tryLock

func (s source) TryLock(ctx context.Context, key string, ttl time.Duration) (lease, error) {
	return s(ctx, key, ttl)
}

func (s source) Lock(context.Context, string, time.Duration) (lease, error) {
	return nil, errors.New("workers don't wait for the lock")
}

// handleOf is the chapter's own handle, which may have a Context and a Fence.
func handleOf(k lease) lease {
	if k, ok := k.(*monitor.Lock[lease]); ok {
		return k.Handle()
	}
	return k
}

func inText(from prometheus.Gatherer) (string, error) {
	families, err := from.Gather()
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			return "", err
		}
	}
	return text.String(), nil
}

// board has what each worker of the present scene has told last. It is what Prometheus scrapes.
type board struct {
	mu        sync.Mutex
	act, lock string
	latest    map[int]string // by worker
}

// begin forgets the workers of the scene before, which have ended.
func (b *board) begin(a act, l lock) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.act, b.lock, b.latest = a.name, l.name, map[int]string{}
}

func (b *board) put(worker int, numbers string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest[worker] = numbers
}

// Gather is for prometheus.Gatherer: all workers' numbers, with labels that say whose they are.
func (b *board) Gather() ([]*dto.MetricFamily, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string]*dto.MetricFamily{}
	for _, worker := range slices.Sorted(maps.Keys(b.latest)) {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(b.latest[worker]))
		if err != nil {
			return nil, err
		}
		for name, f := range families {
			for _, metric := range f.Metric {
				metric.Label = append(metric.Label, label("act", b.act), label("lock", b.lock), label("worker", strconv.Itoa(worker)))
			}
			if all[name] == nil {
				all[name] = f
			} else {
				all[name].Metric = append(all[name].Metric, f.Metric...)
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) }), nil
}

func label(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// serve answers Prometheus at an address until stop. Without a host in the address it is this machine's own.
func (b *board) serve(addr string) (url string, stop func() error, err error) {
	if strings.HasPrefix(addr, ":") {
		addr = "127.0.0.1" + addr
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(b, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }()
	return "http://" + l.Addr().String() + "/metrics", server.Close, nil
}
