package webhook

import (
	"cmp"
	"container/list"
	"net"
	"sync"
)

// MaxConnections bounds the open connections. An API server has one or a few.
const MaxConnections = 512

// Connections is a listener with a bound on open connections. Beyond it, one is closed: among the connections that
// have brought no review so far, the oldest one from the address with the most of them; if there are none, the same
// among all. So a client that floods the port only closes its own connections, and API servers keep theirs. Create it
// with NewConnections.
type Connections struct {
	net.Listener
	most int

	mutex    sync.Mutex
	byRemote map[string]*connection
	// strangers have brought no review so far, known connections at least one.
	strangers, known byAddress
	accepted         int
}

// NewConnections bounds the connections of a listener.
func NewConnections(listener net.Listener, most int) *Connections {
	return &Connections{Listener: listener, most: most, byRemote: make(map[string]*connection), strangers: byAddress{}, known: byAddress{}}
}

// connection is an open connection of Connections.
type connection struct {
	net.Conn
	all     *Connections
	address string // without the port
	number  int    // increases with each accepted connection
	among   byAddress
	place   *list.Element
}

// byAddress lists connections by address, the oldest ones first.
type byAddress map[string]*list.List

func (b byAddress) add(c *connection) {
	if b[c.address] == nil {
		b[c.address] = list.New()
	}
	c.among, c.place = b, b[c.address].PushBack(c)
}

func (c *connection) leave() {
	if of := c.among[c.address]; of.Len() == 1 {
		delete(c.among, c.address)
	} else {
		of.Remove(c.place)
	}
	c.among, c.place = nil, nil
}

// oldestOfMost returns the oldest connection from the address with the most; nil if there is none.
func (b byAddress) oldestOfMost() *connection {
	var found *connection
	for _, of := range b {
		oldest := of.Front().Value.(*connection)
		if found == nil || cmp.Or(cmp.Compare(of.Len(), b[found.address].Len()), cmp.Compare(found.number, oldest.number)) > 0 {
			found = oldest
		}
	}
	return found
}

// Accept implements net.Listener.
func (l *Connections) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: accepted, all: l, address: addressOf(accepted.RemoteAddr())}
	if crowded := l.add(c); crowded != nil {
		metrics.crowded()
		_ = crowded.Conn.Close()
	}
	return c, nil
}

// add adds a connection, and returns one to close if there are too many.
func (l *Connections) add(c *connection) (crowded *connection) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.accepted++
	c.number = l.accepted
	l.byRemote[c.RemoteAddr().String()] = c
	l.strangers.add(c)
	if len(l.byRemote) <= l.most {
		return nil
	}
	if crowded = l.strangers.oldestOfMost(); crowded == c { // Only the new connection has brought no review.
		if other := l.known.oldestOfMost(); other != nil {
			crowded = other
		}
	}
	l.remove(crowded)
	return crowded
}

// remove does nothing if the connection was already removed.
func (l *Connections) remove(c *connection) {
	if c.place == nil {
		return
	}
	c.leave()
	delete(l.byRemote, c.RemoteAddr().String())
}

// asked records that a connection, by http.Request.RemoteAddr, has brought a review.
func (l *Connections) asked(remote string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if c := l.byRemote[remote]; c != nil {
		c.leave()
		l.known.add(c)
	}
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.all.mutex.Lock()
	c.all.remove(c)
	c.all.mutex.Unlock()
	return c.Conn.Close()
}

func addressOf(remote net.Addr) string {
	if host, _, err := net.SplitHostPort(remote.String()); err == nil {
		return host
	}
	return remote.String()
}
