package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

const token = "00112233445566778899aabbccddeeff"

// call asks a handler for port 8080.
func call(t *testing.T, handler http.Handler, method, path, body string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, e := range edit {
		e(request)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func TestWhoMayAsk(t *testing.T) {
	t.Parallel()
	handler := Handler(shown(t, objects()), token, "8080")
	state := "/" + token + "/api/state"
	for name, test := range map[string]struct {
		path   string
		edit   func(*http.Request)
		status int
	}{
		"the page":            {"/" + token + "/", host("127.0.0.1:8080"), http.StatusOK},
		"our page":            {state, header("Origin", "http://127.0.0.1:8080"), http.StatusOK},
		"localhost":           {state, host("localhost:8080"), http.StatusOK},
		"the same site":       {state, header("Sec-Fetch-Site", "same-origin"), http.StatusOK},
		"without the slash":   {"/" + token, host("127.0.0.1:8080"), http.StatusMovedPermanently},
		"no token":            {"/api/state", host("127.0.0.1:8080"), http.StatusForbidden},
		"no token, page":      {"/", host("127.0.0.1:8080"), http.StatusForbidden},
		"no token, script":    {"/app.js", host("127.0.0.1:8080"), http.StatusForbidden},
		"another token":       {"/" + strings.Repeat("0", 32) + "/api/state", host("127.0.0.1:8080"), http.StatusForbidden},
		"part of the token":   {"/" + token[:31] + "/api/state", host("127.0.0.1:8080"), http.StatusForbidden},
		"DNS rebinding":       {state, host("evil.example:8080"), http.StatusForbidden},
		"another port":        {state, host("127.0.0.1:8081"), http.StatusForbidden},
		"no port":             {state, host("127.0.0.1"), http.StatusForbidden},
		"IPv6":                {state, host("[::1]:8080"), http.StatusForbidden},
		"foreign origin":      {state, header("Origin", "https://evil.example"), http.StatusForbidden},
		"origin of a file":    {state, header("Origin", "null"), http.StatusForbidden},
		"origin of a server":  {state, header("Origin", "http://127.0.0.1:8081"), http.StatusForbidden},
		"origin by TLS":       {state, header("Origin", "https://127.0.0.1:8080"), http.StatusForbidden},
		"origin by name":      {state, header("Origin", "http://localhost:8080"), http.StatusForbidden},
		"foreign image":       {state, header("Sec-Fetch-Site", "cross-site"), http.StatusForbidden},
		"another local page":  {state, header("Sec-Fetch-Site", "same-site"), http.StatusForbidden},
		"no such page":        {"/" + token + "/secret", host("127.0.0.1:8080"), http.StatusNotFound},
		"outside of the page": {"/" + token + "/../handler.go", host("127.0.0.1:8080"), http.StatusTemporaryRedirect},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response := call(t, handler, http.MethodGet, test.path, "", test.edit)
			require.Equal(t, test.status, response.Code, response.Body.String())
			for name, value := range securityHeaders {
				if name == "Cache-Control" && test.status == http.StatusNotFound {
					continue // net/http takes it away from errors about files
				}
				assert.Equal(t, value, response.Header().Get(name), name)
			}
			if test.status == http.StatusForbidden {
				assert.NotContains(t, response.Body.String(), "gpu")
			}
		})
	}
}

// A link to the page may be followed from elsewhere: the file that opens the browser is one. It must not be framed.
func TestLinksToThePage(t *testing.T) {
	t.Parallel()
	handler := Handler(shown(t, objects()), token, "8080")
	navigate := []func(*http.Request){header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")}
	require.Equal(t, http.StatusOK, call(t, handler, http.MethodGet, "/"+token+"/", "", navigate...).Code)
	require.Equal(t, http.StatusForbidden, call(t, handler, http.MethodGet, "/"+token+"/", "", append(navigate, header("Sec-Fetch-Dest", "iframe"))...).Code)
	require.Equal(t, http.StatusForbidden, call(t, handler, http.MethodPost, "/"+token+"/api/fit", "{}", navigate...).Code)
}

func TestOnlyQuestions(t *testing.T) {
	t.Parallel()
	handler := Handler(shown(t, objects()), token, "8080")
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
		require.Equal(t, http.StatusMethodNotAllowed, call(t, handler, method, "/"+token+"/api/state", "").Code, method)
	}
	require.Equal(t, http.StatusNotFound, call(t, handler, http.MethodGet, "/"+token+"/api/fit", "").Code)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	handler := Handler(shown(t, objects()), token, "8080")
	fit := "/" + token + "/api/fit"
	body, err := json.Marshal(Question{Pod: strings.Repeat("x", bodyAtMost)})
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, call(t, handler, http.MethodPost, fit, string(body)).Code)
	require.Equal(t, http.StatusUnsupportedMediaType, call(t, handler, http.MethodPost, fit, "{}", header("Content-Type", "text/plain")).Code)
	require.Equal(t, http.StatusBadRequest, call(t, handler, http.MethodPost, fit, `{"nodes": []}`).Code)
	require.Equal(t, http.StatusRequestURITooLong, call(t, handler, http.MethodGet, "/"+token+"/api/select?cel="+strings.Repeat("1", queryAtMost), "").Code)
}

// Slow questions do not delay the refusal of others, and end when their client is gone.
func TestQuestionsAtOnce(t *testing.T) {
	t.Parallel()
	s := &server{questions: make(chan struct{}, 1)}
	entered, release := make(chan struct{}), make(chan struct{})
	slow := s.asking(func(context.Context, *http.Request) (any, error) {
		close(entered)
		<-release
		return 1, nil
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		slow(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}()
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	recorder := httptest.NewRecorder()
	slow(recorder, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	require.Equal(t, http.StatusServiceUnavailable, recorder.Code)
	close(release)
	<-done
}

func TestNothingIsKnownYet(t *testing.T) {
	t.Parallel()
	handler := Handler(NewMap("x"), token, "8080")
	require.Equal(t, http.StatusServiceUnavailable, call(t, handler, http.MethodGet, "/"+token+"/api/select", "").Code)
	state := call(t, handler, http.MethodGet, "/"+token+"/api/state", "").Body.String()
	require.NotContains(t, state, "null", "the page expects lists")
	require.Contains(t, state, `"v":0`)
}

// get asks and decodes the answer.
func get[T any](t *testing.T, handler http.Handler, path string) T {
	t.Helper()
	response := call(t, handler, http.MethodGet, "/"+token+"/api/"+path, "")
	require.Equal(t, http.StatusOK, response.Code, response.Body.String())
	var result T
	require.NoError(t, json.Unmarshal(response.Body.Bytes(), &result))
	return result
}

func TestSelect(t *testing.T) {
	t.Parallel()
	handler := Handler(shown(t, objects()), token, "8080")
	for query, want := range map[string]Choice{
		"": {Tiles: map[string]string{"a": "1111", "b": "1111"}, Count: 8},
		"class=" + b.Driver + "&labels=" + url.QueryEscape("zone in (zone-b)"):                          {Tiles: map[string]string{"b": "1111"}, Count: 4},
		"cel=" + url.QueryEscape(`device.attributes["gpu.example.com"].numa == 1`):                      {Tiles: map[string]string{"a": "0011", "b": "0011"}, Count: 4},
		"cel=" + url.QueryEscape(`device.attributes["gpu.example.com"].numa == 1`) + "&labels=zone%3Dx": {Tiles: map[string]string{}},
	} {
		require.Equal(t, want, get[Choice](t, handler, "select?"+query), query)
	}
	failing := get[Choice](t, handler, "select?cel="+url.QueryEscape(`device.attributes["gpu.example.com"].nosuch == 1`))
	require.Equal(t, 8, failing.Failed)
	require.NotEmpty(t, failing.Example)
	for _, query := range []string{"cel=" + url.QueryEscape("device."), "class=nosuch", "labels=" + url.QueryEscape("a in")} {
		response := call(t, handler, http.MethodGet, "/"+token+"/api/select?"+query, "")
		require.Equal(t, http.StatusBadRequest, response.Code, query)
	}
}

func TestAttribute(t *testing.T) {
	t.Parallel()
	handler := Handler(shown(t, objects()), token, "8080")
	require.Equal(t, Values{Values: []string{"0", "1"}, Tiles: map[string][]int{"a": {0, 0, 1, 1}, "b": {0, 0, 1, 1}}},
		get[Values](t, handler, "attribute?name="+url.QueryEscape(b.Driver+"/numa")))
	require.Equal(t, Values{Values: []string{}, Tiles: map[string][]int{}}, get[Values](t, handler, "attribute?name=other.example.com/numa"))
}

func TestDevice(t *testing.T) {
	t.Parallel()
	handler := Handler(shown(t, objects()), token, "8080")
	require.Equal(t, Details{
		Device: "gpu.example.com/a/gpu-0", Slice: "a", Node: "a", Taints: []string{}, OfNode: []Named{}, Counters: []Named{},
		Attributes: []Named{{Name: "numa", Value: "0"}}, Capacity: []Named{{Name: "memory", Value: "80Gi"}},
		Holders: []Holder{{Claim: "default/held", Pods: []string{}}},
	}, get[Details](t, handler, "device?id=gpu.example.com/a/gpu-0"))
	parts := Handler(shown(t, partitioned()), token, "8080")
	require.Equal(t, []Named{{Name: "gpu/memory", Value: "20Gi", Left: "40Gi"}}, get[Details](t, parts, "device?id=gpu.example.com/p/quarter-0").Counters)
	shared := get[Details](t, parts, "device?id=gpu.example.com/p/shared")
	require.Equal(t, []Named{{Name: "memory", Value: "80Gi", Left: "50Gi"}}, shared.Capacity)
	require.Equal(t, []Named{{Name: "memory", Value: "30Gi"}}, shared.Holders[0].Share)
	o := objects()
	o.Slices[0].Spec.Devices[0].NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{
		"cpu": {Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: ptr.To(resource.MustParse("4"))}}}
	ofNode := Handler(shown(t, o), token, "8080")
	require.Equal(t, []Named{{Name: "cpu", Value: "4"}}, get[Details](t, ofNode, "device?id=gpu.example.com/a/gpu-0").OfNode)
	for _, id := range []string{"", "gpu.example.com", "gpu.example.com/a/gpu-9", "gpu.example.com/c/gpu-0"} {
		require.Equal(t, http.StatusNotFound, call(t, handler, http.MethodGet, "/"+token+"/api/device?id="+id, "").Code, id)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	handler := Handler(shown(t, objects()), token, "8080")
	found := get[Reasons](t, handler, "explain?pod=default/waits")
	require.Equal(t, map[string]string{"a": "1100"}, found.Blocks, "one is held, one is tainted")
	require.Equal(t, []string{"default/held"}, found.Holders)
	require.NotEmpty(t, found.Groups)
	require.Contains(t, found.Groups[0].Example.Text, "five")
	require.Equal(t, http.StatusNotFound, call(t, handler, http.MethodGet, "/"+token+"/api/explain?pod=default/other", "").Code)
}

// TestOnlyWhatIsInTheWay: devices on nodes that the pod cannot go to are not in its way.
func TestOnlyWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	elsewhere := strings.Replace(manifestOfThree, "zone-a", "nowhere", 1)
	handler := Handler(shown(t, objects()), token, "8080")
	answer := ask(t, handler, Question{Pod: elsewhere})
	require.Equal(t, whatif.DoesNotFit, answer.Verdict)
	require.Empty(t, answer.Reasons.Blocks)
	require.Empty(t, answer.Reasons.Holders)
}

const manifestOfThree = `
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: three}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, count: 3}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: new}
spec:
  nodeSelector: {zone: zone-a}
  containers: [{name: c, image: none}]
  resourceClaims: [{name: gpus, resourceClaimTemplateName: three}]
`

func ask(t *testing.T, handler http.Handler, q Question) Placement {
	t.Helper()
	body, err := json.Marshal(q)
	require.NoError(t, err)
	response := call(t, handler, http.MethodPost, "/"+token+"/api/fit", string(body))
	require.Equal(t, http.StatusOK, response.Code, response.Body.String())
	var placement Placement
	require.NoError(t, json.Unmarshal(response.Body.Bytes(), &placement))
	return placement
}

func TestFit(t *testing.T) {
	t.Parallel()
	handler := Handler(shown(t, objects()), token, "8080")
	without := ask(t, handler, Question{Pod: manifestOfThree})
	require.Equal(t, whatif.DoesNotFit, without.Verdict, "two of node a are left")
	require.Equal(t, map[string]string{"a": "1100"}, without.Reasons.Blocks)

	fits := ask(t, handler, Question{Pod: manifestOfThree, Without: []string{"default/held", "default/gone-by-now"}})
	require.Equal(t, whatif.Fits, fits.Verdict)
	require.Equal(t, "a", fits.Node)
	require.Equal(t, []Planned{
		{"gpu.example.com/a/gpu-0", "default/new-gpus", "gpu"}, {"gpu.example.com/a/gpu-2", "default/new-gpus", "gpu"}, {"gpu.example.com/a/gpu-3", "default/new-gpus", "gpu"},
	}, fits.Devices)

	require.Equal(t, whatif.DoesNotFit, ask(t, handler, Question{Waiting: "default/waits"}).Verdict)
	for _, manifest := range []string{"", "kind: Service", "{", "kind: Pod\n---\nkind: Pod\n", "- 1", "kind: ResourceClaim\napiVersion: resource.k8s.io/v1beta1\n---\nkind: Pod"} {
		body, err := json.Marshal(Question{Pod: manifest})
		require.NoError(t, err)
		response := call(t, handler, http.MethodPost, "/"+token+"/api/fit", string(body))
		require.Equal(t, http.StatusBadRequest, response.Code, "%q: %s", manifest, response.Body.String())
	}
	require.Equal(t, "ffff", tiles(t, get[State](t, handler, "state").Tiles)[1].States, "questions change nothing")
}

func TestPagesAtOnce(t *testing.T) {
	t.Parallel()
	s := &server{shown: shown(t, objects()), streams: make(chan struct{}, 1)}
	s.streams <- struct{}{}
	recorder := httptest.NewRecorder()
	s.events(recorder, httptest.NewRequest(http.MethodGet, "/api/events?since=1", nil))
	require.Equal(t, http.StatusServiceUnavailable, recorder.Code)
}

// Nothing is loaded from elsewhere, and nothing of a cluster becomes HTML.
func TestPage(t *testing.T) {
	t.Parallel()
	files, err := assets.ReadDir("page")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := assets.ReadFile("page/" + file.Name())
		require.NoError(t, err)
		for _, forbidden := range []string{"https://", "innerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", "onclick=\""} {
			assert.NotContains(t, string(text), forbidden, file.Name())
		}
	}
}
