// Package monitor counts what locks do, for Prometheus.
//
// A [Monitor] wraps the locker of any chapter ([Wrap]), watches the Redis clients beneath it ([Monitor.Hook]), and looks
// now and then at what is in Redis ([Monitor.Watch]). The locks know nothing of it: no lock.go imports anything for it,
// and errors and handles pass through unchanged.
//
// The label "name" is what the caller calls a kind of lock, such as "orders", and "node" what the caller calls a Redis.
// There is never a label with a key in it: "order:1", "order:2" … would be a new time series for each order.
//
// Everything is a counter, or is read when Prometheus asks. Rates, quotients and alerts are Prometheus' business: it
// can add up the counters of all processes, which a success rate computed in each of them does not allow. See
// alerts.yml, dashboard.json, and README.md for what each number means and what to do about it.
package monitor

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// How a call of Lock or TryLock ended. Each group of constants is followed by the label values that stand for it: a number
// finds its counter faster than a word, and Lock and Unlock are in a hurry.
const (
	acquired  = iota
	taken     // TryLock: somebody else holds it
	timedOut  // Lock: somebody else held it until the caller's deadline
	cancelled // the caller gave up
	failed    // Redis gave no answer, or an error: the outcome is unknown
)

var attemptOutcomes = []string{"acquired", "taken", "timeout", "cancelled", "error"}

// How a call of Unlock ended.
const (
	released = iota
	expired  // the key was gone
	stolen   // the key was another's
	notHeld  // unlocked before; chapter 1 says nothing more precise than this
	unknown  // Redis gave no answer, or an error
)

var unlockOutcomes = []string{"released", "expired", "stolen", "not_held", "unknown"}

// Why a lease was lost while its holder worked.
const (
	keyGone    = iota // a renewal found no key
	keyForeign        // a renewal found another's key
	notRenewed        // no renewal succeeded in time
	maxHold           // held for the longest time that the lock allows
	outlived          // a lock without renewal: its TTL has ended

	running  // the lease has not ended
	unlocked // it has, and is not lost
)

var lossCauses = []string{"expired", "stolen", "not_renewed", "max_hold", "outlived"}

// Monitor is what all wrapped locks of a process report to. It is a prometheus.Collector: register it once.
type Monitor struct {
	tooLong time.Duration

	attempts, unlocks, lost, commands *prometheus.CounterVec
	waitTime, holdTime                *prometheus.HistogramVec
	audit                             audits

	mu     sync.Mutex
	meters map[string]*meter
}

// Option configures a Monitor.
type Option func(*Monitor)

// WithTooLong sets from which age on a hold counts as held too long. The default is five minutes.
func WithTooLong(d time.Duration) Option { return func(m *Monitor) { m.tooLong = d } }

// New returns a Monitor that has seen nothing yet.
func New(opts ...Option) *Monitor {
	m := &Monitor{
		tooLong: 5 * time.Minute,
		meters:  map[string]*meter{},
		attempts: counter("attempts_total", "Calls of Lock and TryLock, by how they ended.",
			"name", "outcome"),
		unlocks: counter("unlocks_total", "Calls of Unlock, by how they ended.",
			"name", "outcome"),
		lost: counter("leases_lost_total", "Leases that ended while their holder worked, by cause.",
			"name", "cause"),
		commands: counter("commands_total", "Commands to Redis, by what became of them. A command that go-redis sends again counts once.",
			"node", "command", "outcome"),
		waitTime: histogram("wait_seconds", "How long the calls of Lock and TryLock took that acquired the lock.",
			.0001, .001, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60),
		holdTime: histogram("hold_seconds", "How long locks were held, from the end of Lock to the call of Unlock.",
			.001, .01, .1, .5, 1, 5, 10, 20, 30, 60, 120, 300, 900, 3600),
		audit: newAudits(),
	}
	for _, opt := range opts {
		opt(m)
	}
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "redislock", Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "redislock", Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets ...float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Namespace: "redislock", Name: name, Help: help, Buckets: buckets}, []string{"name"})
}

// What is read whenever Prometheus asks.
var (
	waitDesc = desc("waiting", "Calls of Lock and TryLock that have not come back yet.")
	heldDesc = desc("held", "Locks held right now: acquired, not unlocked, and not lost.")
	oldDesc  = desc("oldest_hold_timestamp_seconds", "When the oldest of the locks held right now was acquired. Absent if none is held.")
	longDesc = desc("held_too_long", "Locks held right now for longer than the threshold, five minutes unless configured.")
)

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("redislock_"+name, help, []string{"name"}, nil)
}

func (m *Monitor) parts() []prometheus.Collector {
	return append(m.audit.parts(), m.attempts, m.unlocks, m.lost, m.commands, m.waitTime, m.holdTime)
}

// Describe is for prometheus.Collector.
func (m *Monitor) Describe(to chan<- *prometheus.Desc) {
	for _, part := range m.parts() {
		part.Describe(to)
	}
	for _, d := range []*prometheus.Desc{waitDesc, heldDesc, oldDesc, longDesc} {
		to <- d
	}
}

// Collect is for prometheus.Collector.
func (m *Monitor) Collect(to chan<- prometheus.Metric) {
	m.collectHolds(to) // comes first: it may find a loss to count
	for _, part := range m.parts() {
		part.Collect(to)
	}
}

func (m *Monitor) collectHolds(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, x := range m.meters {
		held, long, oldest := x.open(m.tooLong)
		to <- value(waitDesc, float64(x.waiting.Load()), name)
		to <- value(heldDesc, float64(held), name)
		to <- value(longDesc, float64(long), name)
		if held > 0 {
			to <- value(oldDesc, float64(oldest.UnixNano())/1e9, name)
		}
	}
}

func value(d *prometheus.Desc, v float64, name string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, name)
}
