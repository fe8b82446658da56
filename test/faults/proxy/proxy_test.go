package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

const (
	claimPath = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/one"
	watchPath = "/apis/resource.k8s.io/v1/resourceclaims?watch=true"
)

// backend stands for the API server.
type backend struct {
	*httptest.Server
	// writes is how many PUTs have taken effect.
	writes atomic.Int32
}

func startBackend(t *testing.T) *backend {
	b := &backend{}
	b.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("watch") != "":
			for i := range 3 {
				fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":"%d"}}}`, i)
			}
		case r.Method == http.MethodPut:
			b.writes.Add(1)
			fmt.Fprintf(w, "stored for %s", r.Header.Get("Authorization"))
		default:
			fmt.Fprint(w, "found")
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// startProxy starts a proxy and a client of it.
func startProxy(t *testing.T, b *backend, http1 bool, faults Faults) (*Proxy, *http.Client) {
	t.Helper()
	backendCA := &Proxy{server: b.Server}
	p, err := Start(Options{
		Server: &rest.Config{Host: b.URL, TLSClientConfig: rest.TLSClientConfig{CAData: backendCA.Certificate()}},
		HTTP1:  http1,
	})
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	require.NoError(t, p.Set(faults))
	return p, p.server.Client()
}

// send returns the status and body of an answer.
func send(t *testing.T, p *Proxy, client *http.Client, method, path string) (*http.Response, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, p.URL()+path, strings.NewReader("{}"))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer of-the-client")
	response, err := client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, string(body), err
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind       Kind
		code       int // 0 is no answer
		retryAfter string
		writes     int32
	}{
		"none":         {code: http.StatusOK, writes: 1},
		"conflict":     {kind: Conflict, code: http.StatusConflict},
		"429":          {kind: TooManyRequests, code: http.StatusTooManyRequests},
		"retry later":  {kind: RetryLater, code: http.StatusTooManyRequests, retryAfter: "1"},
		"500":          {kind: InternalError, code: http.StatusInternalServerError},
		"503":          {kind: Unavailable, code: http.StatusServiceUnavailable},
		"cut before":   {kind: CutBefore},
		"cut after":    {kind: CutAfter, writes: 1},
		"delay before": {kind: DelayBefore, code: http.StatusOK, writes: 1},
		"delay after":  {kind: DelayAfter, code: http.StatusOK, writes: 1},
	} {
		for _, http1 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP1 %t", name, http1), func(t *testing.T) {
				t.Parallel()
				b := startBackend(t)
				faults := Faults{Writes: Rates{}}
				if test.kind != "" {
					faults.Writes[test.kind] = 1
				}
				p, client := startProxy(t, b, http1, faults)
				response, body, err := send(t, p, client, http.MethodPut, claimPath+"/status")
				require.Equal(t, test.writes, b.writes.Load())
				if test.kind != "" {
					require.Equal(t, map[Kind]map[string]int{test.kind: {"resourceclaims/status": 1}}, p.Counts().Faults)
				}
				require.Equal(t, 1, p.Counts().Writes)
				if test.code == 0 {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, test.code, response.StatusCode)
				require.Equal(t, test.retryAfter, response.Header.Get("Retry-After"))
				require.Equal(t, http1, response.ProtoMajor == 1)
				if test.code == http.StatusOK {
					require.Equal(t, "stored for Bearer of-the-client", body)
				} else {
					require.Contains(t, body, fmt.Sprintf(`"code":%d`, test.code))
				}
			})
		}
	}
}

// Rates of writes are not for reads, and the other way round.
func TestReads(t *testing.T) {
	t.Parallel()
	p, client := startProxy(t, startBackend(t), false, Faults{Writes: Rates{Conflict: 1}})
	_, body, err := send(t, p, client, http.MethodGet, claimPath)
	require.NoError(t, err)
	require.Equal(t, "found", body)
	require.Zero(t, p.Counts().Total())

	require.NoError(t, p.Set(Faults{Reads: Rates{Unavailable: 1}, Events: Rates{}}))
	response, _, err := send(t, p, client, http.MethodGet, claimPath)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	_, body, err = send(t, p, client, http.MethodGet, watchPath)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(body, "ADDED"), "a watch is no read")
	require.Equal(t, "1 faults in 0 writes and 3 events: 503: 1 (resourceclaims 1)", p.Counts().String())
}

func TestWatches(t *testing.T) {
	t.Parallel()
	p, client := startProxy(t, startBackend(t), false, Faults{Events: Rates{CutWatch: 1}, WatchCuts: 1})
	_, body, err := send(t, p, client, http.MethodGet, watchPath)
	require.Error(t, err)
	require.Equal(t, `{"type":"ADDED","object":{"metadata":{"name":"0"}}}`+"\n"+`{"type":"ADDED","`, body[:69])
	require.Less(t, len(body), 90, "only a part of the second event gets through")
	_, body, err = send(t, p, client, http.MethodGet, watchPath)
	require.NoError(t, err, "the limit of cuts is reached")
	require.Equal(t, 3, strings.Count(body, "ADDED"))
	require.Equal(t, 1, p.Counts().Of(CutWatch))

	repeated := Faults{Events: Rates{RepeatEvents: 1}}
	require.NoError(t, p.Set(repeated))
	_, body, err = send(t, p, client, http.MethodGet, watchPath)
	require.NoError(t, err)
	require.Greater(t, strings.Count(body, "ADDED"), 3)
	repeated.NotRepeated = []string{"pods", "resourceclaims"}
	require.NoError(t, p.Set(repeated))
	_, body, err = send(t, p, client, http.MethodGet, watchPath)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(body, "ADDED"))
}

// Versions that are hidden are not there, whatever the verb; others with a similar name are.
func TestHidden(t *testing.T) {
	t.Parallel()
	b := startBackend(t)
	p, err := Start(Options{
		Server: &rest.Config{Host: b.URL, TLSClientConfig: rest.TLSClientConfig{CAData: (&Proxy{server: b.Server}).Certificate()}},
		Hidden: []string{"resource.k8s.io/v1"},
	})
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	for path, want := range map[string]int{
		"/apis/resource.k8s.io/v1":      http.StatusNotFound,
		claimPath:                       http.StatusNotFound,
		watchPath:                       http.StatusNotFound,
		"/apis/resource.k8s.io/v1beta1": http.StatusOK,
		"/apis/resource.k8s.io/v1beta1/deviceclasses": http.StatusOK,
		"/apis/resource.k8s.io":                       http.StatusOK,
	} {
		response, _, err := send(t, p, p.server.Client(), http.MethodGet, path)
		require.NoError(t, err)
		require.Equal(t, want, response.StatusCode, path)
	}
	_, _, err = send(t, p, p.server.Client(), http.MethodPut, claimPath)
	require.NoError(t, err)
	require.Zero(t, b.writes.Load())
}

// A watch in an encoding that the proxy cannot read is refused: it would have no faults.
func TestWatchInUnknownEncoding(t *testing.T) {
	t.Parallel()
	b := &backend{Server: httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/cbor-seq")
	}))}
	t.Cleanup(b.Close)
	p, client := startProxy(t, b, false, Faults{})
	response, _, err := send(t, p, client, http.MethodGet, watchPath)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadGateway, response.StatusCode)
}

func TestSetRefuses(t *testing.T) {
	t.Parallel()
	p, _ := startProxy(t, startBackend(t), false, Faults{})
	require.ErrorContains(t, p.Set(Faults{Writes: Rates{CutWatch: 0.1}}), `Writes have kind "cut watch"`)
	require.ErrorContains(t, p.Set(Faults{Events: Rates{Conflict: 0.1}}), `Events have kind "409"`)
	require.ErrorContains(t, p.Set(Faults{Reads: Rates{Conflict: 0.6, CutAfter: 0.6}}), "add up to 1.2")
	require.NoError(t, p.Set(Faults{Writes: Mixed(1, RequestKinds()...)}))
}
