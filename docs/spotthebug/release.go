package spotthebug

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"
)

// free releases the lock and reports whether it did. It never disturbs the caller's work.
func free(ctx context.Context, rdb redis.UniversalClient, key, token string) bool {
	deleted, err := rdb.Eval(ctx, releaseScript, []string{key}, token).Int()
	if err != nil {
		log.Printf("release: %v", err)
		return false
	}
	return deleted == 1
}

// release returns nil if the lock was ours until now, and otherwise says why not.
func release(ctx context.Context, rdb redis.UniversalClient, key, token string) error {
	deleted, err := rdb.Eval(ctx, releaseScript, []string{key}, token).Int()
	switch {
	case err != nil:
		return fmt.Errorf("release, outcome unknown: %w", err)
	case deleted == 0:
		return errExpired
	case deleted < 0:
		return errStolen
	}
	return nil
}

// mutex is the lock of one resource. The shop makes one and shares it.
type mutex struct {
	rdb     redis.UniversalClient
	key, id string
}

func newMutex(rdb redis.UniversalClient, key string) *mutex {
	return &mutex{rdb: rdb, key: key, id: newToken()}
}

func (m *mutex) tryLock(ctx context.Context) (bool, error) { return take(ctx, m.rdb, m.key, m.id) }
func (m *mutex) unlock(ctx context.Context) error          { return release(ctx, m.rdb, m.key, m.id) }

// acquisition is one acquisition, with a token of its own.
type acquisition struct {
	rdb        redis.UniversalClient
	key, token string
}

func acquire(ctx context.Context, rdb redis.UniversalClient, key string) (*acquisition, error) {
	a := &acquisition{rdb: rdb, key: key, token: newToken()}
	ok, err := take(ctx, rdb, key, a.token)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errTaken
	}
	return a, nil
}

func (a *acquisition) unlock(ctx context.Context) error { return release(ctx, a.rdb, a.key, a.token) }

// handle serves one request under the lock.
func handle(ctx context.Context, rdb redis.UniversalClient, key string, work func(context.Context) error) error {
	lock, err := acquire(ctx, rdb, key)
	if err != nil {
		return err
	}
	defer lock.unlock(ctx)
	return work(ctx)
}

// handleMended releases on a context that the request can't end, and bounds it.
func handleMended(ctx context.Context, rdb redis.UniversalClient, key string, work func(context.Context) error) error {
	lock, err := acquire(ctx, rdb, key)
	if err != nil {
		return err
	}
	defer func() {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = lock.unlock(own)
	}()
	return work(ctx)
}
