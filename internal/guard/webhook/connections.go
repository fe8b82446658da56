package webhook

import (
	"cmp"
	"container/list"
	"net"
	"sync"
)

// MaxConnections is how many connections there may be. An API server has one, or a few.
const MaxConnections = 512

// Connections is a listener with a bound on how many connections there are. If there are more, one
// has to go: of those that have brought no question so far, the oldest one from the address that
// has most of them; if there are none, the same among all. So whoever crowds the port crowds
// out himself, and an API server keeps its connection. Make it with NewConnections.
type Connections struct {
	net.Listener
	most int

	mutex    sync.Mutex
	byRemote map[string]*connection
	// strangers have brought nothing, known ones a question.
	strangers, known byAddress
	accepted         int
}

// NewConnections bounds the connections of a listener.
func NewConnections(listener net.Listener, most int) *Connections {
	return &Connections{Listener: listener, most: most, byRemote: make(map[string]*connection), strangers: byAddress{}, known: byAddress{}}
}

// connection is one of Connections, until it is closed.
type connection struct {
	net.Conn
	all     *Connections
	address string // without the port
	number  int    // that of an older one is smaller
	among   byAddress
	place   *list.Element
}

// byAddress are connections by address, the oldest ones first.
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

// oldestOfMost is the oldest connection from the address that has most; nil if there is none.
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

// add adds a connection, and returns one that has to go if there are too many.
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
	if crowded = l.strangers.oldestOfMost(); crowded == c { // The only one that has brought nothing is new.
		if other := l.known.oldestOfMost(); other != nil {
			crowded = other
		}
	}
	l.remove(crowded)
	return crowded
}

// remove does nothing if the connection was removed before.
func (l *Connections) remove(c *connection) {
	if c.place == nil {
		return
	}
	c.leave()
	delete(l.byRemote, c.RemoteAddr().String())
}

// asked notes that a connection, by http.Request.RemoteAddr, has brought a question.
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
