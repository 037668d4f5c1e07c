package contract

import (
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/redislock/internal/sim"
	"example.com/redislock/internal/wire"
)

// virtual is a Rig inside a bubble of virtual time.
type virtual struct {
	*sim.Node
	w     *sim.World
	truth *sim.Client
}

func newVirtual(w *sim.World) *virtual {
	n := w.Node("Redis")
	return &virtual{Node: n, w: w, truth: w.Client("truth", n)}
}

func (v *virtual) Link(name string, opts ...func(*redis.Options)) Link {
	return virtualLink{v.w.Client(name, v.Node, opts...), v.w}
}

func (v *virtual) Truth() redis.UniversalClient { return v.truth.Redis() }
func (v *virtual) Down()                        { v.Crash() }
func (v *virtual) Up()                          { v.Restart(true) }
func (v *virtual) Fill()                        { v.Refuse("OOM command not allowed when used memory > 'maxmemory'.") }
func (v *virtual) Drain()                       { v.Accept() }
func (v *virtual) Slack() time.Duration         { return 0 }

type virtualLink struct {
	*sim.Client
	w *sim.World
}

func (l virtualLink) Hold(m wire.Match) Held { return virtualHeld{l.DeliverLate(m)} }

func (l virtualLink) Requests() []string {
	var names []string
	for _, e := range l.w.History().Events {
		if e.Kind == sim.Command && e.Client == l.Name() {
			name, _, _ := strings.Cut(e.Text, " ")
			names = append(names, name)
		}
	}
	return names
}

type virtualHeld struct{ *sim.Late }

func (h virtualHeld) Await() { until(h.Caught) }
