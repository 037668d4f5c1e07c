package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"example.com/redislock/internal/wire"
)

// richStory has a bit of everything: three clients, two nodes, lost and late messages, stops, crashes and jumps.
func richStory(t *testing.T) *History {
	return Run(t, func(w *World) {
		n, o := w.Node("N"), w.Node("O")
		a, b, c := w.Client("A", n), w.Client("B", n), w.Client("C", n)
		second := b.Connect(o)
		stock := w.Resource("stock", 3)
		enter := func(c *Client) { w.Record(Event{Kind: Enter, Client: c.Name(), Key: "k"}) }
		take(a, "k", 1)
		enter(a)
		w.At(s)
		b.LoseReply(wire.Acquires, 1)
		take(b, "k", 2)
		w.At(2 * s)
		b.Do(func() { second.Set(ctx, "k", tokenOf(2), 10*s) })
		w.At(3 * s)
		a.Freeze()
		late := c.DeliverLate(wire.Releases)
		w.At(4 * s)
		drop(c, "k")
		w.At(5 * s)
		o.Hang()
		b.Do(func() { second.Get(ctx, "k") })
		w.At(20 * s)
		a.Thaw()
		a.Do(func() { a.Write(stock, a.Read(stock)-1) })
		w.At(21 * s)
		o.Resume()
		late.Deliver()
		w.At(22 * s)
		n.JumpClock(5 * s)
		take(c, "k", 3)
		enter(c)
		w.At(23 * s)
		c.CrashAfter(gets)
		look(c, "k")
		w.At(24 * s)
		n.Crash()
		w.At(25 * s)
		n.Restart(false)
		b.StopBefore(wire.Any)
		take(b, "k", 4)
		w.At(26 * s)
		b.GoOn()
		w.At(2 * time.Minute)
	})
}

// The same story gives the same timeline and the same JSON, byte for byte, however often it is told.
func TestDeterminism(t *testing.T) {
	times := 200
	if RaceDetector {
		times = 20
	}
	first := richStory(t)
	text := Timeline(first, Check(first), false)
	require.Contains(t, text, "deleted another's lock")
	for range times {
		h := richStory(t)
		require.Equal(t, text, Timeline(h, Check(h), false))
		require.Equal(t, string(first.JSON()), string(h.JSON()))
	}
}
