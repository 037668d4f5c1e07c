package spotthebug

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// manager makes reentrant locks: whoever holds a key may take it again.
type manager struct {
	rdb  redis.UniversalClient
	mu   sync.Mutex
	held map[string]*hold
}

type hold struct {
	id    string
	depth int
}

func (m *manager) tryLock(ctx context.Context, key string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := newToken()
	if h := m.held[key]; h != nil && h.id == id {
		h.depth++
		return true, nil
	}
	ok, err := take(ctx, m.rdb, key, id)
	if ok {
		m.held[key] = &hold{id: id, depth: 1}
	}
	return ok, err
}

// tryLockAs knows the caller by an owner id, which the caller has drawn once and hands on.
func (m *manager) tryLockAs(ctx context.Context, key, owner string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.held[key]; h != nil && h.id == owner {
		h.depth++
		return true, nil
	}
	ok, err := take(ctx, m.rdb, key, owner)
	if ok {
		m.held[key] = &hold{id: owner, depth: 1}
	}
	return ok, err
}

// tryLockMended asks Redis each time, and lets it renew in the same step.
func (m *manager) tryLockMended(ctx context.Context, key, owner string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.held[key]; h != nil && h.id == owner {
		if ours, err := renew(ctx, m.rdb, key, owner); ours || err != nil {
			if ours {
				h.depth++
			}
			return ours, err
		}
		delete(m.held, key)
	}
	ok, err := take(ctx, m.rdb, key, owner)
	if ok {
		m.held[key] = &hold{id: owner, depth: 1}
	}
	return ok, err
}
