package monitor

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// meter is what is counted under one name. All counters exist from the start: a rate needs to see the step from 0 to 1.
type meter struct {
	attempts, unlocks, lost []prometheus.Counter
	waitTime, holdTime      prometheus.Observer
	waiting                 atomic.Int64

	mu    sync.Mutex
	holds []*hold // the open ones, in no order
}

func (m *Monitor) meter(name string) *meter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.meters[name] == nil {
		m.meters[name] = &meter{
			attempts: counters(m.attempts, name, attemptOutcomes),
			unlocks:  counters(m.unlocks, name, unlockOutcomes),
			lost:     counters(m.lost, name, lossCauses),
			waitTime: m.waitTime.WithLabelValues(name),
			holdTime: m.holdTime.WithLabelValues(name),
		}
	}
	return m.meters[name]
}

func counters(vec *prometheus.CounterVec, name string, values []string) []prometheus.Counter {
	var all []prometheus.Counter
	for _, v := range values {
		all = append(all, vec.WithLabelValues(name, v))
	}
	return all
}

// hold is the time from an acquisition to its Unlock. The lease may be lost before that, and nothing here waits for it:
// whether it is lost is looked at when Prometheus asks, and when the holder unlocks.
type hold struct {
	meter *meter
	errs  *Errors
	since time.Time
	lease context.Context // ends with the lease, from chapter 4 on
	ttl   time.Duration   // without that, the lease has ended after this for certain

	// Guarded by meter.mu.
	place int // among the open holds; closed once the lease is lost or unlocked
	ended bool
}

const closed = -1

// begin opens a hold that was waited for since start.
func (h *hold) begin(start time.Time) {
	x := h.meter
	h.since = time.Now()
	x.waitTime.Observe(h.since.Sub(start).Seconds())
	x.mu.Lock()
	defer x.mu.Unlock()
	h.place = len(x.holds)
	x.holds = append(x.holds, h)
}

// end is called when the holder is about to unlock, and closes the hold if it has not been lost before.
func (h *hold) end() {
	now := time.Now()
	why := h.loss(now)
	if why == running {
		why = unlocked
	}
	h.meter.mu.Lock()
	defer h.meter.mu.Unlock()
	h.close(why)
	if !h.ended {
		h.meter.holdTime.Observe(now.Sub(h.since).Seconds())
	}
	h.ended = true
}

func (h *hold) close(why int) {
	if h.place == closed || why == running {
		return
	}
	x, last := h.meter, len(h.meter.holds)-1
	x.holds[h.place], x.holds[last].place = x.holds[last], h.place
	x.holds[last] = nil
	x.holds, h.place = x.holds[:last], closed
	if why != unlocked {
		x.lost[why].Inc()
	}
}

// loss says whether the lease has ended, and why.
func (h *hold) loss(now time.Time) int {
	switch {
	case h.lease == nil && now.Sub(h.since) > h.ttl:
		return outlived
	case h.lease == nil || h.lease.Err() == nil:
		return running
	}
	switch cause := context.Cause(h.lease); {
	case cause == context.Canceled:
		return unlocked // with the chapter's own handle
	case errors.Is(cause, h.errs.Expired):
		return keyGone
	case errors.Is(cause, h.errs.Stolen):
		return keyForeign
	case strings.Contains(cause.Error(), "longest time allowed"): // the locks have no error value of their own for it
		return maxHold
	}
	return notRenewed
}

// open counts the open holds, and those of them that are older than tooLong, and says since when the oldest is open. Holds
// whose lease is lost are closed first.
func (x *meter) open(tooLong time.Duration) (held, long int, oldest time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	for i := len(x.holds) - 1; i >= 0; i-- { // from behind: close puts the last one into the gap
		x.holds[i].close(x.holds[i].loss(now))
	}
	for _, h := range x.holds {
		if now.Sub(h.since) > tooLong {
			long++
		}
		if oldest.IsZero() || h.since.Before(oldest) {
			oldest = h.since
		}
	}
	return len(x.holds), long, oldest
}
