package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"example.com/redislock/internal/redistest"
	"example.com/redislock/internal/sim"
)

// The test binary is its own workers, as the demo is.
func TestMain(m *testing.M) {
	if spec := os.Getenv(workerEnv); spec != "" {
		exit(work(spec))
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // the acts wait, mostly
	os.Exit(m.Run())
}

var small = cast{workers: 4, outage: 300 * time.Millisecond}

func silent() *report { return &report{Writer: io.Discard} }

// scenes plays an act with some locks on real servers, and wants what is documented.
func scenes(t *testing.T, name string, numbers ...string) {
	t.Parallel()
	a, ok := findAct(name)
	require.True(t, ok)
	if sim.RaceDetector {
		numbers = numbers[len(numbers)-1:] // what plays is the same program
	}
	for _, number := range numbers {
		l, ok := findLock(number)
		require.True(t, ok)
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			needsRedis(t)
			x := run(t.Context(), a, l, options{cast: small}, silent())
			require.Empty(t, x.Error)
			require.True(t, x.AsSaid, "%+v", x.figures)
		})
	}
}

func needsRedis(t *testing.T) {
	t.Helper()
	redistest.Start(t) // skips or fails
}

// A primary that dies before its replica has the key lets two workers in, and the shop oversells. When it is one node
// of five, nobody gets in. (With 04: TestMetricsTellTheActsApart.)
func TestFailover(t *testing.T) { scenes(t, "2", "03", "06", "07") }

// Servers that come back with their data let nobody in twice.
func TestRestarts(t *testing.T) { scenes(t, "3", "03", "07") }

// A worker that stops between its last look at the lease and its write, writes late. With a token it is refused.
func TestFrozenWorker(t *testing.T) { scenes(t, "4", "06", "07") }

// While Redis hangs the lease runs out. Lock 03 doesn't tell its holder, lock 07 has four nodes left, and lock 04 does tell:
// TestMetricsTellTheActsApart.
func TestHungRedis(t *testing.T) { scenes(t, "5", "03", "07") }

// Ten mutexes in ten processes oversell, so the sale has contention; a lock in Redis ends that. It needs no server.
func TestSteadyOnEmbeddedNodes(t *testing.T) {
	t.Parallel()
	a, _ := findAct("1")
	for _, number := range []string{"00", "03"} {
		l, _ := findLock(number)
		x := run(t.Context(), a, l, options{cast: small, embedded: true}, silent())
		require.Empty(t, x.Error)
		require.True(t, x.AsSaid, "%s: %+v", l.name, x.figures)
	}
}

// F2: WAIT sees a replica that lags, but only from the right connection, and does not decide who takes over.
func TestWait(t *testing.T) {
	t.Parallel()
	needsRedis(t)
	all, err := runWait(t.Context(), false)
	require.NoError(t, err)
	require.Len(t, all, 4)
	require.NoError(t, asSaid(nil, all))
}

// An outcome other than the documented one fails the demo.
func TestSurprise(t *testing.T) {
	a, _ := findAct("1")
	a.oversells = []string{"03"} // it won't
	l, _ := findLock("03")
	o := options{acts: []act{a}, locks: []lock{l}, cast: small, embedded: true}
	var log strings.Builder
	err := perform(t.Context(), o, io.Discard, &report{Writer: &log})
	require.ErrorContains(t, err, "not as documented: act 1 with 03-safe-release")
	require.Contains(t, log.String(), "NOT AS DOCUMENTED")
}

// Ctrl-C in the middle of an act leaves no process, no goroutine and no folder.
func TestInterrupt(t *testing.T) {
	needsRedis(t)
	before := goleak.IgnoreCurrent()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a, _ := findAct("5")
	l, _ := findLock("03")
	o := options{acts: []act{a}, locks: []lock{l}, cast: small}
	hangs := false
	during := trigger{"03-safe-release: Redis hangs", func() {
		hangs = true
		cancel()
	}}
	err := perform(ctx, o, io.Discard, &report{Writer: during, live: true})
	require.ErrorContains(t, err, "interrupted")
	require.True(t, hangs)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	goleak.VerifyNone(t, before) // each process has a goroutine that waits for its end
}

// trigger calls f when a text is written.
type trigger struct {
	text string
	f    func()
}

func (w trigger) Write(b []byte) (int, error) {
	if strings.Contains(string(b), w.text) {
		w.f()
	}
	return len(b), nil
}

// Whatever ends a play, the stage is cleared.
func TestStageIsCleared(t *testing.T) {
	broken := errors.New("broken")
	for name, play := range map[string]func(*stage) error{
		"returns": func(*stage) error { return broken },
		"fatal":   func(s *stage) error { s.Fatal(broken); return nil },
		"panics":  func(*stage) error { panic(broken) },
	} {
		t.Run(name, func(t *testing.T) {
			var root string
			var cleared bool
			defer func() {
				require.Equal(t, name == "panics", recover() != nil)
				require.True(t, cleared)
				require.NoDirExists(t, root)
			}()
			err := onStage(false, func(s *stage) error {
				root = s.root
				s.Cleanup(func() { cleared = true })
				return play(s)
			})
			require.ErrorContains(t, err, "broken")
		})
	}
}

// The figures come from the times at which workers say they were inside, in whatever order they say it.
func TestFigures(t *testing.T) {
	h := history{
		{What: entered, Enter: 10},
		{What: sold, Enter: 40, At: 50},
		{What: lost, Enter: 10, At: 20},
		{What: stale, Enter: 15, At: 45},
		{What: soldOut, Enter: 80, At: 81},
	}
	require.Equal(t, figures{Sold: 1, Told: 1, Refused: 1, Together: 2, Idle: 30}, h.figures())
	require.Equal(t, 1, history{{What: sold, Enter: 1, At: 2}, {What: sold, Enter: 2, At: 3}}.figures().Together)

	var many history
	for i := range items + 3 {
		many = append(many, event{What: sold, Enter: int64(10*i + 1), At: int64(10*i + 2)})
	}
	require.Equal(t, 3, many.figures().Oversold)
}
