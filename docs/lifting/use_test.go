package lifting

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	lock "example.com/redislock/04-watchdog"
	"example.com/redislock/internal/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each answer of the lock leads to the reaction that the page gives.
func TestUse(t *testing.T) {
	broken := errors.New("the work's own error")
	for name, c := range map[string]struct {
		want   error
		happen func(n *sim.Node)
		work   error
	}{
		"all is well":        {},
		"the work fails":     {work: broken, want: broken},
		"somebody has it":    {happen: func(n *sim.Node) { n.Set("lock:order:1", "B", time.Hour) }, want: errBusy},
		"Redis is not ready": {happen: func(n *sim.Node) { n.Refuse("LOADING Redis is loading the dataset in memory") }},
	} {
		t.Run(name, func(t *testing.T) {
			sim.Run(t, func(w *sim.World) {
				n := w.Node("Redis")
				a := w.Client("A", n)
				if c.happen != nil {
					c.happen(n)
				}
				var err error
				a.Do(func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					err = place(ctx, lock.New(a.Redis()), func(context.Context) error { return c.work })
				})
				w.At(2 * time.Minute)
				switch {
				case c.want != nil:
					require.ErrorIs(t, err, c.want)
				case name == "all is well":
					require.NoError(t, err)
				default:
					require.Error(t, err)
					require.False(t, errors.Is(err, errBusy) || errors.Is(err, errOverlaps))
				}
			})
		})
	}
}

// A lease that is lost while the work runs ends the work, and the caller is told that two may have worked.
func TestUseOfALostLease(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		n := w.Node("Redis")
		a := w.Client("A", n)
		var err error
		a.Do(func() {
			err = place(context.Background(), lock.New(a.Redis()), func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
		})
		w.At(5 * time.Second)
		n.Delete("lock:order:1")
		w.At(20 * time.Second)
		require.ErrorIs(t, err, errOverlaps)
	})
}
