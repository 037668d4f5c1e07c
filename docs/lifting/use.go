// Package lifting is how a lifted lock is called, for docs/lifting.md.
package lifting

import (
	"context"
	"errors"
	"time"

	lock "example.com/redislock/04-watchdog"
)

// What the caller does about each answer.
var (
	errBusy     = errors.New("somebody else does it, come back later")
	errOverlaps = errors.New("two may have worked at the same time: check, or roll back")
)

// place runs the work under the lock of one order.
func place(ctx context.Context, locker *lock.Locker, work func(context.Context) error) error {
	err := locker.Do(ctx, "order:1", 30*time.Second, work) // the work's ctx ends with the caller's, or with the lease
	switch {
	case errors.Is(err, lock.ErrLockLost), errors.Is(err, lock.ErrNotHeld):
		return errors.Join(errOverlaps, err)
	case errors.Is(err, lock.ErrNotAcquired):
		return errors.Join(errBusy, err)
	}
	return err // nil, or the work's own, or no lock because Redis failed: no reason to go on
}
