package contract

import (
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/redislock/internal/wire"
)

// Rig is one Redis, real or virtual, and what can go wrong with it.
type Rig interface {
	// Link adds a client with go-redis' default options on a network connection of its own.
	Link(name string, opts ...func(*redis.Options)) Link
	// Truth is a client that no fault of a Link gets in the way of. Like the rest it can't reach a Redis that
	// is down or hangs, and a virtual Redis refuses it too.
	Truth() redis.UniversalClient

	// Hang makes Redis take requests and answer none. On Resume it executes what has arrived.
	Hang()
	Resume()
	// Down ends Redis, so that connections are refused. Up brings it back with its data.
	Down()
	Up()
	// Refuse makes Redis answer every request of the links that exist now with an error.
	Refuse(message string)
	Accept()
	// Fill leaves Redis without memory, so that it refuses to write more, until Drain.
	Fill()
	Drain()

	// Slack is what a real machine may add to a time limit. In virtual time it is zero.
	Slack() time.Duration
}

// Link is a client and the network between it and Redis.
type Link interface {
	Redis() redis.UniversalClient
	// LoseReply lets Redis execute the next requests that match, and breaks the connection instead of answering.
	LoseReply(m wire.Match, times int)
	// LoseRequest breaks the connection before the next requests that match get anywhere.
	LoseRequest(m wire.Match, times int)
	// Hold keeps the next request that matches in the network, also when the client has given up on it.
	Hold(m wire.Match) Held
	// Cut breaks all connections and lets no new one through, until Heal.
	Cut()
	Heal()
	// Requests are the names of the requests that have arrived so far.
	Requests() []string
}

// Held is a request on its way.
type Held interface {
	Await()   // until it is on its way
	Deliver() // and wait until Redis has executed it
}

// Variations of a client.

// sendOnce switches go-redis' own resending off.
func sendOnce(o *redis.Options) { o.MaxRetries = -1 }

// heedDeadlines makes go-redis end a command at its context's deadline. By default it does not.
func heedDeadlines(o *redis.Options) { o.ContextTimeoutEnabled = true }

// impatient makes go-redis give up on a reply soon.
func impatient(o *redis.Options) { o.ReadTimeout = 100 * time.Millisecond }

// oneConnection leaves the client a single connection.
func oneConnection(o *redis.Options) { o.PoolSize = 1 }
