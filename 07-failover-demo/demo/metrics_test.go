package main

import (
	"io"
	"net/http"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
)

// What Prometheus scrapes agrees with what the workers have told of their sale, one event after the other.
func TestMetricsAgreeWithTheEvents(t *testing.T) {
	t.Parallel()
	a, _ := findAct("1")
	numbers := []string{"00", "04", "07"}
	if sim.RaceDetector {
		numbers = numbers[:2] // five embedded nodes take half a minute
	}
	for _, number := range numbers {
		l, _ := findLock(number)
		t.Run(l.name, func(t *testing.T) {
			o := options{cast: small, embedded: true, board: &board{}}
			var told history
			o.watch = func(h history) { told = h }
			x := run(t.Context(), a, l, o, silent())
			require.Empty(t, x.Error)
			url, stop, err := o.board.serve(":0")
			require.NoError(t, err)
			numbers := scrape(t, url)
			require.NoError(t, stop())

			entered := float64(told.all(entered))
			require.GreaterOrEqual(t, entered, float64(items))
			sum := func(name, label, value string) float64 { return add(numbers["redislock_"+name], label, value) }
			require.Equal(t, entered, sum("attempts_total", "outcome", "acquired"), l.name)
			require.Equal(t, entered, sum("unlocks_total", "outcome", "released"), l.name)
			require.Equal(t, entered, add(numbers["redislock_hold_seconds"], "lock", l.name), l.name)
			require.Zero(t, sum("held", "lock", l.name), l.name)
			if l.nodes > 0 {
				require.Positive(t, sum("attempts_total", "outcome", "taken"), "nobody met anybody")
			}
			if l.name == "04-watchdog" && sum("commands_total", "outcome", "no_answer") == 0 { // or some are sent again
				require.Equal(t, sum("attempts_total", "lock", l.name), sum("commands_total", "command", "acquire"))
				require.Equal(t, entered, sum("commands_total", "command", "release"))
			}
			for i := range small.workers {
				require.Positive(t, sum("attempts_total", "worker", string(rune('0'+i))), "worker %d", i)
			}
		})
	}
}

// Who sees only what Prometheus scrapes can tell the acts apart.
func TestMetricsTellTheActsApart(t *testing.T) {
	t.Parallel()
	for act, signs := range map[string]struct{ moves, stays []string }{
		"1": {nil, []string{"connection lost", "not its own", "not renewed"}},
		"2": {[]string{"connection lost", "not its own"}, []string{"not renewed"}},
		"3": {[]string{"connection lost"}, []string{"not its own", "not renewed"}},
		"4": {[]string{"not renewed", "not its own"}, []string{"connection lost", "error"}},
		"5": {[]string{"not renewed", "error"}, []string{"connection lost"}},
	} {
		t.Run("act "+act, func(t *testing.T) {
			t.Parallel()
			needsRedis(t)
			a, _ := findAct(act)
			l, _ := findLock("04")
			b := &board{}
			x := run(t.Context(), a, l, options{cast: small, board: b}, silent())
			require.Empty(t, x.Error)
			require.True(t, x.AsSaid, "%+v", x.figures)
			families, err := b.Gather()
			require.NoError(t, err)
			numbers := map[string]*dto.MetricFamily{}
			for _, f := range families {
				numbers[f.GetName()] = f
			}
			seen := map[string]float64{
				"connection lost": add(numbers["redislock_commands_total"], "outcome", "no_connection"),
				"not its own": add(numbers["redislock_unlocks_total"], "outcome", "stolen") +
					add(numbers["redislock_unlocks_total"], "outcome", "expired"),
				"not renewed": add(numbers["redislock_leases_lost_total"], "cause", "not_renewed"),
				"error":       add(numbers["redislock_attempts_total"], "outcome", "error"),
			}
			for _, sign := range signs.moves {
				require.Positive(t, seen[sign], sign)
			}
			for _, sign := range signs.stays {
				require.Zero(t, seen[sign], sign)
			}
		})
	}
}

func scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.Reader(answer.Body))
	require.NoError(t, err)
	return families
}

// add adds up the metrics of a family that have a label; of a histogram, how many there were.
func add(f *dto.MetricFamily, name, value string) (sum float64) {
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == name && l.GetValue() == value {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}
