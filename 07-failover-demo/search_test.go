package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/sim"
)

// The two rounds without anything around them, so that a computer can try some hundred thousand orders in a second: no
// time, no connections, only who executes what before whom. Any request may be late, lost, or come twice, a node may end
// a key whenever it likes, and a client may stop at any step. A node keeps its count.

// model is one Redis: whose the key is, or 0, and how many grants it has counted.
type model struct{ owner, count int }

// rules are the conditions that a near miss leaves out.
type rules struct {
	noOwner, noCount, noWriteBack bool // of the script of the second round
	anybody                       bool // a node that was not asked, and holds nothing of A's, vouches
	stragglers                    bool // a grant that comes after the token is chosen vouches
	first                         bool // the token is the first grant's count, not the largest
	quorum                        int
}

// grant is the script of the first round. It answers 0 if somebody else has the key.
func (n *model) grant(me int) int {
	if n.owner != 0 && n.owner != me {
		return 0
	}
	if n.owner == 0 {
		n.owner, n.count = me, n.count+1
	}
	return n.count
}

// settle is the script of the second round.
func (n *model) settle(r rules, me, token int) bool {
	if !r.noOwner && n.owner != me || !r.noCount && n.count > token {
		return false
	}
	if r.noCount && !r.noOwner {
		n.count = max(n.count, token) // write-back by plain maximum
	} else if !r.noWriteBack {
		n.count = token
	}
	return true
}

func (n *model) release(me int) {
	if n.owner == me {
		n.owner = 0
	}
}

// try is one acquisition.
type try struct {
	id, client  int
	began, done int // steps; done is 0 until a majority vouches
	counts      [5]int
	granted     []int // nodes, in the order of their answers
	chosen      int   // how many of these had answered when the token was chosen
	token       int
	vouch       [5]bool
	over        bool // released or given up: nothing is begun any more
}

// onItsWay is a request that has not arrived yet.
type onItsWay struct {
	kind string
	of   *try
	node int
	left int // copies
}

type search struct {
	rules
	random   *rand.Rand
	nodes    [5]model
	clients  [3]*try
	network  []*onItsWay
	complete []*try
	ids      int
	step     int
	told     bool // writes down what happens, which takes longer than all the rest
	steps    []string
}

func (s *search) note(format string, t *try, numbers ...int) {
	if !s.told {
		return
	}
	var words []any
	if t != nil {
		words = append(words, fmt.Sprintf("%c%d", 'A'+t.client, t.id)) // A1 is an acquisition of client A
	}
	for _, n := range numbers {
		words = append(words, n)
	}
	s.steps = append(s.steps, fmt.Sprintf(format, words...))
}

func (s *search) send(kind string, t *try, copies int) {
	for node := range s.nodes {
		s.network = append(s.network, &onItsWay{kind, t, node, copies})
	}
}

// schedule runs one random order, and reports whether something has happened that must not.
func (s *search) schedule() (wrong bool) {
	for s.step = 1; s.step < 70; s.step++ {
		switch i := s.random.IntN(20); {
		case i < 2:
			n := s.random.IntN(5)
			if s.nodes[n].owner != 0 {
				s.nodes[n].owner = 0
				s.note("N%d ends its key", nil, n+1)
			}
		case i < 5:
			s.act(s.random.IntN(3))
		case len(s.network) > 0:
			if s.deliver(s.random.IntN(len(s.network))) {
				return true
			}
		}
	}
	return false
}

// act lets a client do the next thing that is its own to decide.
func (s *search) act(client int) {
	switch t := s.clients[client]; {
	case t == nil || t.over:
		s.ids++
		t = &try{id: s.ids, client: client, began: s.step}
		s.clients[client] = t
		s.send("acquire", t, 2)
		s.note("%s asks", t)
	case t.token == 0 && len(t.granted) >= s.quorum:
		t.chosen = len(t.granted)
		t.token = t.counts[t.granted[0]]
		for _, n := range t.granted {
			if !s.first {
				t.token = max(t.token, t.counts[n])
			}
		}
		s.send("settle", t, 1)
		s.note("%s chooses the token %d", t, t.token)
	case t.done > 0 || s.random.IntN(4) == 0:
		t.over = true
		s.send("release", t, 1)
		s.note("%s unlocks, or gives up", t)
	}
}

// deliver lets a request arrive, and its answer come back.
func (s *search) deliver(i int) (wrong bool) {
	r := s.network[i]
	if r.left--; r.left == 0 {
		s.network = slices.Delete(s.network, i, i+1)
	}
	t, n := r.of, &s.nodes[r.node]
	switch r.kind {
	case "acquire":
		count := n.grant(t.id)
		s.note("%s: acquire at N%d → %d", t, r.node+1, count)
		if count == 0 || t.counts[r.node] != 0 {
			return false
		}
		t.counts[r.node] = count
		if t.granted = append(t.granted, r.node); s.stragglers && t.token != 0 {
			return s.vouch(t, r.node)
		}
	case "settle":
		asked := slices.Contains(t.granted[:t.chosen], r.node)
		if asked && n.settle(s.rules, t.id, t.token) || !asked && s.anybody {
			s.note("%s: settle at N%d → 1", t, r.node+1)
			return s.vouch(t, r.node)
		}
	case "release":
		n.release(t.id)
		s.note("%s: release at N%d", t, r.node+1)
	}
	return false
}

// vouch counts a voice, and looks at the token when there are enough of them.
func (s *search) vouch(t *try, node int) (wrong bool) {
	t.vouch[node] = true
	voices := 0
	for _, yes := range t.vouch {
		if yes {
			voices++
		}
	}
	if t.over || t.done > 0 || voices < s.quorum {
		return false
	}
	t.done = s.step
	s.note("%s is in, with the token %d", t, t.token)
	for _, before := range s.complete {
		if before.token == t.token || before.done < t.began && before.token > t.token {
			s.note("%s was in with %d, and what came later has no larger token", before, before.token)
			return true
		}
	}
	s.complete = append(s.complete, t)
	return false
}

// outcome is what a search has found.
type outcome struct {
	right    int      // schedules that went right, before one did not
	complete int      // acquisitions in them that were complete
	wrong    []string // the steps of the shortest schedule that went wrong
}

// find runs schedules until one has gone wrong, and then as many again for a shorter one.
func find(r rules, most int) (x outcome) {
	for i := range most {
		run := func(told bool) (*search, bool) {
			s := &search{rules: r, random: rand.New(rand.NewPCG(uint64(i), 7)), told: told}
			return s, s.schedule()
		}
		s, wrong := run(false)
		switch {
		case wrong && (x.wrong == nil || s.step < 2*len(x.wrong)): // most steps are told
			if s, _ = run(true); x.wrong == nil || len(s.steps) < len(x.wrong) {
				x.wrong = s.steps
			}
		case x.wrong == nil:
			x.right, x.complete = x.right+1, x.complete+len(s.complete)
		case i > 2*x.right+10_000:
			return x
		}
	}
	return x
}

// No order of the two rounds gives a token twice, or a later acquisition a smaller one.
func TestTokensInAnyOrder(t *testing.T) {
	most := 300_000 // what is wrong with any near miss takes fewer, see below
	if testing.Short() {
		most = 100_000
	}
	if os.Getenv("REDISLOCK_LONG") != "" {
		most = 10_000_000
	}
	x := sim.Once(t, func() outcome { return find(rules{quorum: 3}, most) })
	require.Empty(t, x.wrong, strings.Join(x.wrong, "\n"))
	t.Logf("%d acquisitions in %d schedules", x.complete, x.right)
	require.Greater(t, x.complete, x.right/3, "too little has happened to prove anything")
}

// The same search finds what is wrong with each near miss.
func TestNearMissesAreFound(t *testing.T) {
	for name, r := range map[string]rules{
		"unconditional write-back":              {quorum: 3, noOwner: true, noCount: true},
		"write-back whoever has the key":        {quorum: 3, noOwner: true},
		"write-back by plain maximum":           {quorum: 3, noCount: true},
		"no write-back":                         {quorum: 3, noWriteBack: true},
		"nodes that have granted nothing vouch": {quorum: 3, anybody: true},
		"grants that come too late vouch":       {quorum: 3, stragglers: true},
		"the first grant's count, not compared": {quorum: 3, first: true, noCount: true},
		"a quorum one short":                    {quorum: 2},
	} {
		t.Run(name, func(t *testing.T) {
			x := sim.Once(t, func() outcome { return find(r, 5_000_000) })
			require.NotEmpty(t, x.wrong, "not found in %d schedules", x.right)
			t.Logf("after %d schedules that went right:\n%s", x.right, strings.Join(x.wrong, "\n"))
		})
	}
}

// The model's node does what the scripts do.
func TestModelAnswersAsTheScriptsDo(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer rdb.Close()
	ctx, keys := context.Background(), []string{redisKey("order:1"), countKey("order:1")}
	random, node := rand.New(rand.NewPCG(7, 7)), model{}
	for range 1000 {
		me, token := 1+random.IntN(3), max(1, node.count+random.IntN(4)-2)
		switch random.IntN(5) {
		case 0, 1:
			answer, err := rdb.Eval(ctx, acquireScript, keys, me, 30_000).Result()
			require.NoError(t, err)
			count := int64(0)
			if counts, granted := answer.([]any); granted {
				count = counts[0].(int64)
			}
			require.EqualValues(t, node.grant(me), count)
		case 2:
			done, err := rdb.Eval(ctx, settleScript, keys, me, token).Int()
			require.NoError(t, err)
			require.Equal(t, node.settle(rules{}, me, token), done == 1)
		case 3:
			require.NoError(t, rdb.Eval(ctx, releaseScript, keys[:1], me).Err())
			node.release(me)
		case 4:
			require.NoError(t, rdb.Del(ctx, keys[0]).Err())
			node.owner = 0
		}
		owner, _ := rdb.Get(ctx, keys[0]).Int()
		count, _ := rdb.Get(ctx, keys[1]).Int()
		require.Equal(t, node, model{owner, count})
	}
}
