package simulation

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// errBroken is the error of a request whose connection is cut.
var errBroken = errors.New("connection reset by peer")

// Weather describes the faults between the API server and its clients.
type Weather struct {
	// Latency is the maximum duration of a request, Lag the maximum delay of a watch.
	Latency, Lag time.Duration
	// Refused is the share of requests that are answered by 429, 500 or 503 and have no effect; Lost the share of writes that are
	// stored although their answer does not arrive; Cut the share of watches that end each time an event is read.
	Refused, Lost, Cut float64
}

// Calm is weather in which nothing goes wrong.
var Calm = Weather{Latency: 2 * time.Millisecond, Lag: 5 * time.Millisecond}

// atOnce is for controllers that send requests while they hold a mutex: in a bubble, time stands still while a goroutine waits for
// a mutex.
var atOnce = Weather{Lag: 5 * time.Millisecond}

// Connection is the connection of one process to the API server.
type Connection struct {
	server *Server
	// clock is the clock of the machine on which the process runs.
	clock *clock

	mutex   sync.Mutex
	random  *rand.Rand
	weather Weather
	// paused is not nil while the process is paused: requests wait until it is closed.
	paused chan struct{}
	// frozen is not nil while the process is stopped, see Freeze.
	frozen chan struct{}
	dead   bool
	// moments are the writes at which something will happen.
	moments []*moment
	// stalled holds the resources whose watches deliver nothing for a while, with the end of that time, and shut the same
	// for those that cannot be watched.
	stalled, shut map[string]time.Time
	// watches are the open watches.
	watches map[*watch]struct{}
}

// Connect returns a connection to the server.
func (s *Server) Connect(seed uint64, w Weather) *Connection {
	return &Connection{server: s, random: rand.New(rand.NewPCG(seed, 1)), weather: w, stalled: map[string]time.Time{}, shut: map[string]time.Time{}, watches: map[*watch]struct{}{}}
}

// Set changes the weather.
func (c *Connection) Set(w Weather) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.weather = w
}

// Close ends everything.
func (c *Connection) Close() {
	c.mutex.Lock()
	c.dead = true
	open := c.watches
	c.watches = map[*watch]struct{}{}
	if c.paused != nil {
		close(c.paused)
		c.paused = nil
	}
	c.thaw()
	c.mutex.Unlock()
	for w := range open {
		w.Close()
	}
}

// Pause stops all requests and watches until Resume.
func (c *Connection) Pause() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.paused == nil {
		c.paused = make(chan struct{})
	}
}

// Resume ends a pause.
func (c *Connection) Resume() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.paused != nil {
		close(c.paused)
		c.paused = nil
	}
}

func (c *Connection) follow(w *watch) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.watches[w] = struct{}{}
}

func (c *Connection) forget(w *watch) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.watches, w)
}

// fate is the outcome of one request.
type fate struct {
	before, behind      time.Duration
	paused              chan struct{}
	dead, refused, lost bool
}

func (c *Connection) fateOf(write bool) fate {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	f := fate{dead: c.dead, paused: c.paused}
	f.before, f.behind = c.upTo(c.weather.Latency)/2, c.upTo(c.weather.Latency)/2
	f.refused = c.random.Float64() < c.weather.Refused
	if write {
		f.lost = c.random.Float64() < c.weather.Lost
	}
	return f
}

// upTo returns a random duration. The mutex is held.
func (c *Connection) upTo(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return time.Duration(c.random.Int64N(int64(most)))
}

// lag returns the random delay of an event.
func (c *Connection) lag() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.upTo(c.weather.Lag)
}

func (c *Connection) cuts() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.random.Float64() < c.weather.Cut
}

func (c *Connection) whilePaused() chan struct{} {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.paused
}

// isDisturbed reports whether the process is paused, or the weather is bad.
func (c *Connection) isDisturbed() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.paused != nil || c.frozen != nil || c.weather != Calm && c.weather != (Weather{})
}

// RoundTrip implements http.RoundTripper.
func (c *Connection) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	if strings.HasSuffix(r.URL.Path, "/events") || strings.Contains(r.URL.Path, "/events/") {
		return c.tellEvent(r, body)
	}
	if c.whileFrozen() {
		return nil, errBroken
	}
	write := r.Method != http.MethodGet
	f := c.fateOf(write)
	if f.paused != nil {
		select {
		case <-f.paused:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		f.dead = f.dead || c.isDead()
	}
	if f.dead {
		return nil, errBroken
	}
	if err := pause(r.Context(), f.before); err != nil {
		return nil, err
	}
	if f.refused || c.refuses(r) {
		return c.refusal(r), nil
	}
	response, arrives, err := c.await(r, body)
	if err != nil {
		return nil, err
	}
	if response == nil {
		return nil, errBroken
	}
	if f.lost || !arrives {
		response.Body.Close()
		return nil, errBroken
	}
	if err := pause(r.Context(), f.behind); err != nil {
		response.Body.Close()
		return nil, err
	}
	c.whileFrozen()
	response.Request = r
	return response, nil
}

// await sends a request, and waits for the answer until the client gives up. The server goes on with the request then: it may be
// asking a guard.
func (c *Connection) await(r *http.Request, body []byte) (*http.Response, bool, error) {
	if c.server.asks == nil || !mayAllocate(r) {
		response, arrives := c.send(r, body)
		return response, arrives, nil
	}
	type answer struct {
		response *http.Response
		arrives  bool
	}
	answered := make(chan answer, 1)
	go func() {
		response, arrives := c.send(r, body)
		answered <- answer{response, arrives}
	}()
	select {
	case a := <-answered:
		return a.response, a.arrives, nil
	case <-r.Context().Done():
		return nil, false, r.Context().Err()
	}
}

// tellEvent stores an Event. Weather does not affect Events: client-go's broadcaster holds a mutex while it sends some of them,
// and in a bubble, time stands still while a goroutine waits for a mutex.
func (c *Connection) tellEvent(r *http.Request, body []byte) (*http.Response, error) {
	if c.isDead() {
		return nil, errBroken
	}
	response := c.server.serve(c, r, body)
	response.Request = r
	return response, nil
}

func (c *Connection) isDead() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.dead
}

func (c *Connection) refusal(r *http.Request) *http.Response {
	c.server.refused.Add(1)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch c.random.IntN(3) {
	case 0:
		response := failure(apierrors.NewTooManyRequests("the server is busy", 1))
		response.Header.Set("Retry-After", "1")
		return response
	case 1:
		return failure(apierrors.NewInternalError(fmt.Errorf("etcdserver: request timed out")))
	default:
		return failure(apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, r.Method, schema.GroupResource{}, "", "the server is shutting down", 1, true))
	}
}
