package redistest

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"
)

// Link is a piece of network on the way to a server, for what is not a client: a replica. It can swallow what the
// server sends, and then neither end notices.
type Link struct {
	listener net.Listener
	target   string
	cut      atomic.Bool
	running  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// NewLink starts a link to the server at target. It ends with the test.
func NewLink(t T, target string) *Link {
	t.Helper()
	l, err := net.Listen("tcp", loopback(0))
	if err != nil {
		t.Fatalf("redistest: link: %v", err)
	}
	k := &Link{listener: l, target: target}
	k.running.Go(k.accept)
	t.Cleanup(k.close)
	return k
}

// ReplicaOf are the args of a server that replicates over this link.
func (k *Link) ReplicaOf() []string {
	addr := k.listener.Addr().(*net.TCPAddr)
	return []string{"--replicaof", addr.IP.String(), strconv.Itoa(addr.Port)}
}

// Cut swallows what the server sends from now on. What comes the other way is still passed on, so to the server
// everything looks well.
func (k *Link) Cut() { k.cut.Store(true) }

func (k *Link) accept() {
	for {
		near, err := k.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", k.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		k.mu.Lock()
		k.conns = append(k.conns, near, far)
		k.mu.Unlock()
		k.running.Go(func() { pipe(far, near, nil) })
		k.running.Go(func() { pipe(near, far, &k.cut) })
	}
}

// pipe copies from one end to the other until one of them closes, or swallows.
func pipe(to, from net.Conn, swallow *atomic.Bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && (swallow == nil || !swallow.Load()) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (k *Link) close() {
	_ = k.listener.Close()
	k.mu.Lock()
	for _, c := range k.conns {
		_ = c.Close()
	}
	k.mu.Unlock()
	k.running.Wait()
}
