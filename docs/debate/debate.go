// Package debate is Redlock in its smallest form, and two resources that defend themselves, for docs/debate.md. It is made
// for arguing, not for use: it asks one node after the other and gives nothing back.
package debate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const ttl = 30 * time.Second

// acquire takes the key on most of the nodes and returns how long the lock is valid, 0 if it is not held.
func acquire(ctx context.Context, nodes []redis.UniversalClient, key, token string) time.Duration {
	start, votes := time.Now(), 0
	for _, rdb := range nodes {
		if rdb.Do(ctx, "SET", key, token, "NX", "PX", ttl.Milliseconds()).Err() == nil {
			votes++
		}
	}
	if votes < len(nodes)/2+1 {
		return 0
	}
	return max(0, ttl-time.Since(start)-ttl/100-2*time.Millisecond)
}

var errRefused = errors.New("refused: somebody else has written since")

// counted is a resource that compares a growing number, which the lock service has given the holder.
type counted struct {
	mu     sync.Mutex
	newest int64
	value  int
}

func (r *counted) write(number int64, value int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number < r.newest {
		return errRefused
	}
	r.newest, r.value = number, value
	return nil
}

// swapped is a resource that needs no order: a holder first puts its random token there, and writes only while it is still there.
type swapped struct {
	mu    sync.Mutex
	token string
	value int
}

// begin marks the resource as this holder's, and shows the value.
func (r *swapped) begin(token string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.token = token
	return r.value
}

func (r *swapped) write(token string, value int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.token != token {
		return errRefused
	}
	r.value = value
	return nil
}
