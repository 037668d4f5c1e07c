package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	failover "example.com/redislock/07-failover-demo"
)

// workerEnv makes this program a worker. It holds a job.
const workerEnv = "FLASH_SALE_WORKER"

const (
	lockKey  = "flash-sale"
	workTime = 2 * time.Millisecond // between the reading of the stock and the writing
)

// job is what a worker has to know.
type job struct {
	Worker    int
	Lock      string
	TTL       time.Duration
	Role      role
	Shop      string   // addresses
	Nodes     []string //
	Sentinels []string // if there are any, they know where the first node is
	Group     string
	Counts    bool // it tells its monitor's numbers
}

// role is what a worker does on its first visit.
type role string

const (
	sells   role = ""        // nothing special
	holds   role = "holds"   // it works until it gets the word, or loses the lease
	freezes role = "freezes" // it checks its lease, waits for the word, and then writes
)

// event is a line that a worker prints. The times are nanoseconds of the machine's clock, which all workers share.
type event struct {
	Worker    int    `json:"worker"`
	What      what   `json:"what"`
	Enter, At int64  `json:",omitempty"`
	Why       string `json:"why,omitempty"`
	Numbers   string `json:",omitempty"` // for Prometheus
}

type what string

const (
	refused what = "refused" // somebody else has the lock; told now and then only
	entered what = "entered" // it has the lock
	counted what = "counted" // its numbers, and not a part of the sale
	waiting what = "waiting" // it waits for the word, inside, having checked its lease
	// The rest end a visit.
	sold    what = "sold"     // it has written the new stock
	lost    what = "lost"     // its lease has told it to stop, and it did not write
	stale   what = "stale"    // the shop has refused its write
	soldOut what = "sold out" // it read a stock of 0
	failed  what = "failed"   // the shop did not answer
)

type worker struct {
	job
	lock lock
	try  tryLock
	shop shop
	word <-chan struct{} // closed when the word comes

	mu      sync.Mutex // guards out
	out     *json.Encoder
	numbers func() // tells what the monitor has counted

	attempts    int // in vain, in a row
	lastRefusal time.Time
}

// work is the main function of a worker.
func work(spec string) error {
	signal.Ignore(os.Interrupt) // Ctrl-C reaches the whole family; the parent decides
	redis.SetLogger(quiet{})
	w := &worker{out: json.NewEncoder(os.Stdout), numbers: func() {}}
	if err := json.Unmarshal([]byte(spec), &w.job); err != nil {
		return err
	}
	ctx, word := listen(os.Stdin)
	w.word = word
	var ok bool
	if w.lock, ok = findLock(w.Lock); !ok {
		return fmt.Errorf("no lock %q", w.Lock)
	}
	clients := w.clients()
	try, err := w.lock.open(clients)
	if err != nil {
		return err
	}
	w.try = try
	for _, rdb := range clients { // a node's 50 ms are for the lock, not for finding the Sentinels
		_ = rdb.Ping(ctx).Err()
	}
	if w.Counts {
		w.watch(clients)
	}
	w.shop = openShop(redis.NewClient(&redis.Options{Addr: w.Shop}), w.lock.fenced)
	for ctx.Err() == nil {
		if more := w.visit(ctx); !more {
			w.numbers()
			return nil
		}
	}
	return nil // the parent has gone
}

// listen waits for the word, a line, and for the end of the parent.
func listen(in io.Reader) (context.Context, <-chan struct{}) {
	ctx, end := context.WithCancel(context.Background())
	word := make(chan struct{})
	go func() {
		defer end()
		lines := bufio.NewScanner(in)
		if lines.Scan() {
			close(word)
		}
		for lines.Scan() {
		}
	}()
	return ctx, word
}

func (j job) clients() []redis.UniversalClient {
	var all []redis.UniversalClient
	for i, addr := range j.Nodes {
		if i == 0 && len(j.Sentinels) > 0 {
			all = append(all, redis.NewFailoverClient(&redis.FailoverOptions{MasterName: j.Group, SentinelAddrs: j.Sentinels}))
			continue
		}
		all = append(all, redis.NewClient(&redis.Options{Addr: addr}))
	}
	return all
}

// visit tries to get in once and sells one item. It reports whether there may be more to sell.
func (w *worker) visit(ctx context.Context) bool {
	k, err := w.try(ctx, lockKey, w.TTL)
	if err != nil {
		w.refused(err)
		w.pause()
		return true
	}
	w.attempts = 0
	enter := time.Now()
	w.tell(event{What: entered, Enter: enter.UnixNano()})
	end, why := w.sell(ctx, k)
	w.tell(event{What: end, Enter: enter.UnixNano(), At: time.Now().UnixNano(), Why: why})
	w.unlock(ctx, k)
	return end != soldOut
}

// sell is the critical section: read, work, write.
func (w *worker) sell(ctx context.Context, k lease) (what, string) {
	stock, err := w.shop.Read(ctx, fenceOf(k))
	switch {
	case errors.Is(err, failover.ErrStale):
		return stale, err.Error()
	case err != nil:
		return failed, err.Error()
	case stock <= 0:
		return soldOut, ""
	}
	role := w.Role
	w.Role = sells
	w.work(leaseContext(ctx, k), role)
	if held := leaseContext(ctx, k); held.Err() != nil {
		return lost, context.Cause(held).Error()
	}
	if role == freezes {
		w.tell(event{What: waiting})
		w.await(ctx)
	}
	switch err := w.shop.Write(ctx, stock-1, fenceOf(k)); {
	case errors.Is(err, failover.ErrStale):
		return stale, err.Error()
	case err != nil:
		return failed, err.Error()
	}
	return sold, ""
}

// work takes a moment, or until the word comes. It ends when the lease does.
func (w *worker) work(held context.Context, role role) {
	if role == holds {
		w.tell(event{What: waiting})
		w.await(held)
		return
	}
	select {
	case <-time.After(workTime):
	case <-held.Done():
	}
}

func (w *worker) await(ctx context.Context) {
	select {
	case <-w.word:
	case <-ctx.Done():
	}
}

// unlock repeats an Unlock whose outcome is unknown, for as long as a customer would wait.
func (w *worker) unlock(ctx context.Context, k lease) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if err := k.Unlock(ctx); err == nil || errors.Is(err, w.lock.errs.NotHeld) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// pause keeps waiters from coming all at once. With a lock on several nodes they could split the votes for ever.
func (w *worker) pause() {
	longest := 2 * time.Millisecond << min(w.attempts, 5)
	w.attempts++
	time.Sleep(longest/2 + rand.N(longest/2))
}

func (w *worker) refused(err error) {
	if errors.Is(err, w.lock.errs.NotAcquired) && time.Since(w.lastRefusal) > 50*time.Millisecond {
		w.lastRefusal = time.Now()
		w.tell(event{What: refused})
	}
}

func (w *worker) tell(e event) {
	e.Worker = w.Worker
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(e) // an error means that the parent has gone
}

// leaseContext is the lease's own context, if it has one. Locks 01 to 03 can't tell their holder anything.
func leaseContext(ctx context.Context, k lease) context.Context {
	if k, ok := handleOf(k).(interface{ Context() context.Context }); ok {
		return k.Context()
	}
	return ctx
}

func fenceOf(k lease) int64 {
	if k, ok := handleOf(k).(interface{ Fence() int64 }); ok {
		return k.Fence()
	}
	return 0
}

// quiet keeps go-redis from printing what the acts do to it on purpose.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
