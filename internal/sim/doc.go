// Package sim is a small world in virtual time: embedded Redis servers, clients that use the real code of a lock, and
// a network and a clock that do what the test says. Each of its stories is the same every time.
//
// # Virtual time
//
// A lock with a TTL of 30 seconds breaks when something takes 31. A test that really waits is slow; one that shortens the
// TTL to 50 ms breaks on a busy machine for the wrong reason. Here everything runs in a bubble of testing/synctest: its
// clock stands still while anybody has something to do, and jumps to the next timer when nobody has. An hour takes
// milliseconds, and a TTL ends exactly when it should.
//
// # A story
//
// [Run] opens a bubble and hands over a [World]. The story adds nodes ([World.Node], a Redis server each) and clients
// ([World.Client], a process each), tells a client what to do ([Client.Do]), arranges faults, and lets time pass
// ([World.At]). Each step gets an instant of its own: two things at one instant have no order. It looks like this, and
// the Example is the whole of it:
//
//	h := sim.Run(t, func(w *sim.World) {
//		n := w.Node("Redis")
//		a, b := w.Client("A", n), w.Client("B", n)
//		a.Do(func() { lock(a) })
//		w.At(29 * time.Second)
//		a.StopBefore(wire.Releases) // A is about to send its DEL, and is paused
//		a.Do(func() { unlock(a) })
//		w.At(31 * time.Second) // A's lease has ended
//		b.Do(func() { lock(b) })
//		w.At(32 * time.Second)
//		a.GoOn() // the DEL arrives, and hits B's key
//	})
//	f := sim.Check(h)
//	t.Log(sim.Timeline(h, f, false))
//
// The world sees commands by itself. What a lock is for it can't see: the story says with [World.Record] when a client
// enters its work and leaves it ([Enter], [Leave]), and how a call came back ([Return]).
//
// # The way of a request
//
//	client     go-redis writes a request to a connection in memory (conn.go)
//	faults     the client's rules look at it: stop, crash, lose, keep it for later (client.go)
//	gate       in an exploration it waits here for its turn (explorer.go)
//	node       executes it, unless it refuses, hangs or is down (node.go)
//	history    who, what, the reply, whose key it was and is, and its TTL (history.go)
//	reply      waits in the connection until go-redis reads it, or is lost
//
// What go-redis says when a connection is new (HELLO, CLIENT …) meets no faults and stands in no history. Random
// tokens (32 hexadecimal digits, alone or inside a value) are shown as "A's token", after the client that sent them first.
// A key belongs to the client that put its present value there.
//
// # Reading a timeline
//
// Time goes down. Each client has a lane; the last lane says whose the key is, and for how long.
//
//	┃   the client is inside: two of these in one row are the end of mutual exclusion
//	‖   it is stopped or frozen      †   it is dead      ⋮   time passes
//	←   how a call came back, if not with success
//	>>  the guilty step, which the last line names again
//
// [Check] reads the history from the start and stops at the first thing that must not happen. It knows nothing of the
// lock. A frozen client inside harms nobody; what it writes when it is thawed does.
//
// # Exploration
//
// A story shows the one order of events that somebody thought of. [Explore] goes through all of them: every order of the
// clients' commands, every moment for a TTL to end, and crashes and lost replies up to a number. It runs the real code from
// the start for each schedule, shortest first, so that the first counterexample is a shortest one. It has an id
// such as A.A.t.B.A, and [Replay] runs it again. Schedules that lead to the same state are continued once.
//
// What it proves holds within the plan: so many clients, each doing this once, so many faults. It proves nothing about
// more clients, about nodes that a client treats differently, about waiting with random pauses (the code must do the same every time), about what happens inside the node
// during a command, or about hung nodes. Clients must be alike. Code that goes by the order in which nodes answer
// needs [Plan.Ordered]. Time passes only until a TTL ends, until a client with nothing at the gate goes on, or until a client at
// work sends a renewal, up to a number of those. Any other timer of a client that has a command at the gate fires only on the way
// there.
//
// # What the world can't do
//
//   - The node is miniredis, not Redis: no replication, no failover, no cluster redirects, WAIT answers 0, and its own
//     opinion on some errors. What matters there is tested on real servers.
//   - Commands that wait for somebody else (BLPOP, SUBSCRIBE) are answered with an error.
//   - Only the first key of a command is followed. A script may touch others, EXEC many; the history does not say so.
//   - Requests on one connection stay in order, and each is executed once, unless go-redis sends it again.
//   - A request needs no time. Latency is a fault: [Client.DeliverLate], [Node.Hang].
//   - A frozen client's code stands still when it next sends, reads or is told something. Its timers fire on time,
//     and code between two commands runs on. What it then wants to send leaves at the thaw, or not at all if go-redis'
//     timeout has passed.
//   - go-redis notices that an idle connection is broken when it next uses it, and then sends again, as it does
//     after any lost reply. [Client] makes that pause 100 ms; other random pauses are the story's own business.
//   - A fault rule matches a client's requests to all its nodes.
package sim
