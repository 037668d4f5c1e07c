// Package delex is chapter 3's release with DELEX instead of a script, for docs/compare-and-delete.md.
package delex

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

var errNotHeld = errors.New("lock not held")

// release deletes the key if it holds our token. Redis compares and deletes in one step.
func release(ctx context.Context, rdb redis.UniversalClient, key, token string) error {
	deleted, err := rdb.Do(ctx, "DELEX", key, "IFEQ", token).Int()
	switch {
	case err != nil:
		return fmt.Errorf("unlock, outcome unknown: %w", err)
	case deleted == 0:
		return errNotHeld // gone, or another's: the command does not say which
	}
	return nil
}
