package proxy

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// Options are the options of a proxy.
type Options struct {
	// Server holds the address and the CA of the API server. Credentials in it are
	// not used: the proxy forwards those of its clients, which can only be tokens.
	Server *rest.Config
	// Seed starts the sequence of random numbers.
	Seed uint64
	// Hidden are versions of the API ("resource.k8s.io/v1") to hide from clients: requests
	// for them are answered as by a server that does not have them. Only the list of all
	// groups still names them.
	Hidden []string
	// HTTP1 makes clients use HTTP/1.1, where a cut closes the connection of one
	// request. With HTTP/2, a cut resets one of many streams.
	HTTP1 bool
}

// Proxy is a running proxy. It is safe for concurrent use.
type Proxy struct {
	server   *httptest.Server
	upstream *http.Transport
	forward  *httputil.ReverseProxy
	resolver request.RequestInfoFactory
	hidden   []string

	mutex  sync.Mutex
	faults Faults
	random *rand.Rand
	counts Counts
	// watchCuts is the number of times that the watches of a kind of object were cut since Set.
	watchCuts map[string]int
}

// Start starts a proxy without faults on a loopback address.
func Start(o Options) (*Proxy, error) {
	address, err := url.Parse(o.Server.Host)
	if err != nil {
		return nil, fmt.Errorf("start a proxy: address of the API server: %w", err)
	}
	// No client certificate: the server would take the proxy for its client.
	verify, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CAFile: o.Server.CAFile, CAData: o.Server.CAData,
	}})
	if err != nil {
		return nil, fmt.Errorf("start a proxy: CA of the API server: %w", err)
	}
	p := &Proxy{
		upstream: &http.Transport{TLSClientConfig: verify, ForceAttemptHTTP2: true, DisableCompression: true},
		resolver: request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		hidden:   o.Hidden,
		random:   rand.New(rand.NewPCG(o.Seed, 0)),
		counts:   newCounts(),
	}
	p.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(address)
			r.Out.Header.Set("Accept-Encoding", "identity") // Events are read here.
		},
		Transport:      p.upstream,
		FlushInterval:  -1, // Events are delivered at once.
		ModifyResponse: p.watchEvents,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.EnableHTTP2 = !o.HTTP1
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.StartTLS()
	return p, nil
}

// URL returns the address for clients.
func (p *Proxy) URL() string { return p.server.URL }

// Certificate returns the certificate that the proxy shows to clients, in PEM.
func (p *Proxy) Certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
}

// Set changes the faults of requests and events from now on.
func (p *Proxy) Set(faults Faults) error {
	if err := faults.validate(); err != nil {
		return err
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.faults = faults
	p.watchCuts = map[string]int{}
	return nil
}

// Counts returns the numbers of requests and faults since the start.
func (p *Proxy) Counts() Counts {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.counts.clone()
}

// Stop cuts all connections and ends the proxy.
func (p *Proxy) Stop() {
	p.server.CloseClientConnections()
	p.server.Close()
	p.upstream.CloseIdleConnections()
}

// ServeHTTP forwards a request, possibly with a fault.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.hides(r.URL.Path) {
		http.NotFound(w, r)
		return
	}
	kind, delay := p.chooseForRequest(r)
	switch kind {
	case "":
		p.forward.ServeHTTP(w, r)
	case CutBefore:
		cut()
	case CutAfter:
		p.forward.ServeHTTP(lost{http.Header{}}, r)
		cut()
	case DelayBefore:
		pause(r, delay)
		p.forward.ServeHTTP(w, r)
	case DelayAfter:
		answer := httptest.NewRecorder()
		p.forward.ServeHTTP(answer, r)
		pause(r, delay)
		copyAnswer(w, answer)
	default:
		refuse(w, kind)
	}
}

// hides reports whether a path belongs to a hidden version of the API.
func (p *Proxy) hides(path string) bool {
	return slices.ContainsFunc(p.hidden, func(version string) bool {
		rest, found := strings.CutPrefix(path, "/apis/"+version)
		return found && (rest == "" || rest[0] == '/')
	})
}

// cut ends the connection or the stream of the current request without an answer.
func cut() { panic(http.ErrAbortHandler) }

// pause waits, but not longer than the client does.
func pause(r *http.Request, delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// chooseForRequest chooses the fault of a request, and counts both.
func (p *Proxy) chooseForRequest(r *http.Request) (Kind, time.Duration) {
	info, err := p.resolver.NewRequestInfo(r)
	if err != nil || info.Verb == "watch" {
		return "", 0
	}
	target := info.Resource
	if info.Subresource != "" {
		target += "/" + info.Subresource
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	rates := p.faults.Reads
	if isWrite(r.Method) {
		rates = p.faults.Writes
		p.counts.Writes++
	}
	kind := rates.pick(p.random.Float64())
	if kind != "" {
		p.counts.add(kind, target)
	}
	return kind, minDelay + time.Duration(p.random.Int64N(int64(maxDelay-minDelay)))
}

func isWrite(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// watchEvents is the reverse proxy's hook for answers. It puts an eventStream between the
// server and the reader of a watch.
func (p *Proxy) watchEvents(response *http.Response) error {
	info, err := p.resolver.NewRequestInfo(response.Request)
	if err != nil || info.Verb != "watch" || response.StatusCode != http.StatusOK {
		return nil
	}
	read, err := readerOf(response.Header.Get("Content-Type"), response.Body)
	if err != nil {
		return err // The answer is 502: without it, a lack of faults would go unnoticed.
	}
	// Repeated and cut events change the length.
	response.ContentLength = -1
	response.Header.Del("Content-Length")
	response.Body = newEventStream(response.Body, read, func() (Kind, int, time.Duration) {
		return p.chooseForEvent(info.Resource)
	})
	return nil
}

// chooseForEvent chooses the fault of an event of a watch, and counts both. For
// RepeatEvents it returns the number of events to repeat.
func (p *Proxy) chooseForEvent(resource string) (kind Kind, repeat int, delay time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.counts.Events++
	kind = p.faults.Events.pick(p.random.Float64())
	switch {
	case kind == RepeatEvents && slices.Contains(p.faults.NotRepeated, resource):
		kind = ""
	case kind == CutWatch && p.watchCuts[resource] >= p.faults.WatchCuts:
		kind = ""
	case kind == CutWatch:
		p.watchCuts[resource]++
	}
	if kind != "" {
		p.counts.add(kind, resource)
	}
	return kind, 1 + p.random.IntN(maxRepeated), time.Duration(p.random.Int64N(int64(maxEventDelay)))
}
