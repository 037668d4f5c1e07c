package sim

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"example.com/redislock/internal/wire"
)

// conn is the connection of a client to a node, as go-redis sees it. What go-redis writes goes through the
// client's faults to the node at once; what the node answers waits here to be read. All of it is memory, so
// everything is over when Write returns, and a bubble's clock knows when nothing can happen any more.
type conn struct {
	client *Client
	node   *Node
	peer   *server.Peer // the node's side
	out    bytes.Buffer // where the node writes a reply

	unread   []byte // bytes of a request that is not complete yet
	replies  []byte
	err      error         // the connection is broken
	changed  chan struct{} // has a token when a Read should look again
	deadline time.Time     // of Read
	writeBy  time.Time     // of Write
}

func newConn(c *Client, n *Node) *conn {
	cn := &conn{client: c, node: n, changed: make(chan struct{}, 1)}
	cn.peer = newPeer(cn)
	return cn
}

// Write takes request bytes from go-redis. It blocks while the client is stopped, as if the process were.
func (cn *conn) Write(b []byte) (int, error) {
	cn.unread = append(cn.unread, b...)
	for {
		words, raw, err := wire.ReadRequest(bufio.NewReader(bytes.NewReader(cn.unread)))
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break // not complete yet
		}
		if err != nil {
			return 0, err
		}
		cn.unread = cn.unread[len(raw):]
		if len(words) > 0 {
			if err := cn.client.send(&request{client: cn.client, conn: cn, words: words}); err != nil {
				return 0, err
			}
		}
	}
	w := cn.client.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return 0, net.ErrClosed
	}
	return len(b), nil
}

// Read gives go-redis a reply. It fails when its deadline passes or the connection breaks.
func (cn *conn) Read(b []byte) (int, error) {
	for {
		cn.client.pass()
		n, wait, err := cn.take(b)
		if wait == nil {
			return n, err
		}
		select {
		case <-cn.changed:
		case <-wait.C:
		}
		wait.Stop()
	}
}

// take returns what Read can return now, or a timer for its deadline.
func (cn *conn) take(b []byte) (int, *time.Timer, error) {
	w := cn.client.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(cn.replies) > 0:
		n := copy(b, cn.replies)
		cn.replies = cn.replies[n:]
		return n, nil, nil
	case cn.err != nil:
		return 0, nil, cn.err
	case cn.deadline.IsZero():
		return 0, time.NewTimer(1000 * time.Hour), nil
	case !time.Now().Before(cn.deadline):
		return 0, nil, os.ErrDeadlineExceeded
	}
	return 0, time.NewTimer(time.Until(cn.deadline)), nil
}

// deliver brings a reply. The world's lock is held.
func (cn *conn) deliver(reply []byte) {
	cn.replies = append(cn.replies, reply...)
	cn.wake()
}

// fail breaks the connection. The world's lock is held.
func (cn *conn) fail(err error) {
	if cn.err == nil {
		cn.err = err
	}
	delete(cn.client.conns, cn)
	cn.wake()
}

func (cn *conn) wake() {
	select {
	case cn.changed <- struct{}{}:
	default:
	}
}

func (cn *conn) Close() error {
	w := cn.client.w
	w.mu.Lock()
	defer w.mu.Unlock()
	cn.fail(net.ErrClosed)
	return nil
}

func (cn *conn) SetReadDeadline(t time.Time) error {
	w := cn.client.w
	w.mu.Lock()
	defer w.mu.Unlock()
	cn.deadline = t
	cn.wake()
	return nil
}

// SetWriteDeadline matters to a frozen client only: a Write of this size never blocks on a network.
func (cn *conn) SetWriteDeadline(t time.Time) error {
	w := cn.client.w
	w.mu.Lock()
	defer w.mu.Unlock()
	cn.writeBy = t
	return nil
}

// overdue reports whether it is too late for a Write.
func (cn *conn) overdue() bool {
	w := cn.client.w
	w.mu.Lock()
	defer w.mu.Unlock()
	return !cn.writeBy.IsZero() && !time.Now().Before(cn.writeBy)
}

func (cn *conn) SetDeadline(t time.Time) error {
	return errors.Join(cn.SetReadDeadline(t), cn.SetWriteDeadline(t))
}

func (cn *conn) LocalAddr() net.Addr  { return addr(cn.client.name) }
func (cn *conn) RemoteAddr() net.Addr { return addr(cn.node.name) }

type addr string

func (a addr) Network() string { return "sim" }
func (a addr) String() string  { return string(a) }
