package webmap

import (
	"image/color"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	b "github.com/quartermaster-dra/quartermaster/test/builder"
)

// ready waits until the map is drawn.
func ready(w *browser) {
	w.t.Helper()
	w.await("document.documentElement.dataset.rendered")
}

// number is one of the numbers that the page says of itself.
func number(t *testing.T, w *browser, name string) float64 {
	t.Helper()
	value, err := strconv.ParseFloat(run[string](w, "return document.documentElement.dataset[arguments[0]] ?? ''", name), 64)
	require.NoError(t, err, name)
	return value
}

func TestMap(t *testing.T) {
	o := world(48, true)
	s := serve(t, o)
	w := open(t, driver(t), 1280, 800, "light")
	w.goTo(s.address)
	ready(w)
	require.EqualValues(t, 48, number(t, w, "shown"))
	require.Regexp(t, `^48 nodes · \d+ devices · \d+ free · \d+ allocated · \d+ shared · \d+ blocked · \d+ unknown · \d+ tainted$`, w.text("#summary"))
	require.Equal(t, "(1)", w.text("#problems-count"))
	w.click("#problems summary")
	require.Contains(t, w.text("#problems-list"), "pool gpu.example.com/node-2 is incomplete")
	require.Greater(t, colors(t, w), 5, "the states have colours")

	t.Run("filters", func(t *testing.T) { filters(t, w) })
	t.Run("keyboard", func(t *testing.T) { keyboard(t, w) })
	t.Run("table", func(t *testing.T) { table(t, w) })
	t.Run("waiting pods", func(t *testing.T) { waitingPods(t, w) })
	t.Run("changes", func(t *testing.T) { changes(t, w, s, o) })
	t.Run("what if", func(t *testing.T) { whatIf(t, w) })
	for _, complaint := range w.complaints() {
		// A filter does not compile, and a manifest has no pod: that is what is tested.
		if !strings.Contains(complaint, "/api/select") && !strings.Contains(complaint, "/api/fit") {
			assert.Fail(t, "the browser complains", complaint)
		}
	}
}

func filters(t *testing.T, w *browser) {
	w.t = t
	w.write("#cel", `device.attributes["gpu.example.com"].numa == 1`)
	w.write("#labels", "zone=a")
	w.press(keyEnter)
	w.await(`document.querySelector("#filter-result").innerText.includes("on 16 nodes match")`)
	require.EqualValues(t, 16, number(t, w, "shown"))
	w.write("#cel", "device.")
	w.press(keyEnter)
	w.await(`document.querySelector("#filter-error").innerText.includes("compil")`)
	w.click("button[type=reset]")
	w.await(`document.documentElement.dataset.shown === "48" && document.querySelector("#filter-error").innerText === ""`)
	choose(w, "#namespace", "serving")
	w.await(`document.querySelector("#filter-result").innerText.includes("match, 0 of them free")`)
	require.Less(t, number(t, w, "shown"), 30.0)
	w.click("button[type=reset]")
	w.await(`document.documentElement.dataset.shown === "48"`)
	draws := number(t, w, "draws")
	choose(w, "#group", b.Driver+"/numa")
	w.await(`Number(document.documentElement.dataset.draws) > arguments[0]`, draws)
}

// choose chooses from a list.
func choose(w *browser, selector, value string) {
	w.t.Helper()
	run[bool](w, `const s = document.querySelector(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event("change", { bubbles: true })); return s.value === arguments[1]`, selector, value)
}

// Everything can be reached without a pointer, and is said to those who do not see the map.
func keyboard(t *testing.T, w *browser) {
	w.t = t
	live := func() string { return run[string](w, "return document.querySelector('#live').textContent") }
	run[any](w, "document.querySelector('#fit-all').focus()")
	w.press(keyTab, keyTab)
	require.Equal(t, "map", run[string](w, "return document.activeElement.id"), "Tab goes from the buttons to the map")
	w.press(keyHome)
	require.Contains(t, live(), "gpu-0: allocated by research/job-0-0\nnode-0: 8 devices, 7 free")
	w.press(keyRight)
	require.Contains(t, live(), "gpu-1: free\nnode-0")
	w.press(keyRight, keyRight, keyRight, keyRight, keyRight, keyRight, keyRight)
	require.Contains(t, live(), "node-1: 8 devices", "it goes on with the next node")
	before := live()
	w.press(keyDown)
	require.NotEqual(t, before, live())
	w.press(keyEnd)
	require.Contains(t, live(), "node-47")
	w.press(keyHome, keyEnter)
	w.await(`document.querySelector("#details").innerText.includes("claim research/job-0-0, for research/job-0-0")`)
	require.Equal(t, "details-title", run[string](w, "return document.activeElement.id"), "Enter leads to the details")
	require.Contains(t, w.text("#details"), "pcieRoot\npci-0")
	require.Greater(t, pixels(t, w, color.RGBA{0x0b, 0x57, 0xa4, 0xff}), 20, "the device of the details is marked, also without the focus")
	w.press(keyEsc)
	require.Equal(t, "map", run[string](w, "return document.activeElement.id"), "Escape leads back")
	size := live()
	w.press("+")
	require.NotEqual(t, size, live())
	require.Contains(t, live(), "size ")
	w.click("#fit-all")
}

func table(t *testing.T, w *browser) {
	w.t = t
	w.click("#as-table")
	require.Contains(t, w.text("#table"), "48 nodes")
	require.Equal(t, 48, run[int](w, "return document.querySelectorAll('#table tbody tr').length"))
	require.Equal(t, "node-10", run[string](w, "return document.querySelectorAll('#table tbody th')[10].innerText"), "in the order that people expect")
	w.click("#table tbody tr:nth-child(4) button")
	require.Contains(t, w.text("#table"), "gpu-1\tshared, 33 % taken by serving/job-3-1")
	w.click("#table tbody tr:first-of-type button")
	w.await(`document.querySelector("#details").innerText.includes("gpu.example.com/node-3/gpu-0")`)
	w.click("#as-map")
}

func waitingPods(t *testing.T, w *browser) {
	w.t = t
	require.Equal(t, "(1)", w.text("#waiting-count"))
	require.Contains(t, w.text("#waiting"), "no node has eight free devices")
	draws := number(t, w, "draws")
	w.point("#waiting li")
	w.await(`Number(document.documentElement.dataset.draws) > arguments[0]`, draws)
	w.click("#waiting button")
	w.await(`document.querySelector("#explanation").innerText.includes("request gpus")`)
	require.Contains(t, w.text("#explanation"), "held by other claims")
	require.Contains(t, w.text("#explanation"), "Nearest\nnode-0: one more free device of class large for request gpus")

	// What is in a pod's way is not broken: it has a mark of its own, which the legend explains.
	w.await(`document.querySelector("#legend").innerText.includes("held or tainted, and usable for the chosen pod")`)
	require.Contains(t, w.text("#legend"), "node that lacks the least")
	red := color.RGBA{0xc4, 0x00, 0x1a, 0xff}
	w.await(`Number(document.documentElement.dataset.draws) > arguments[0]`, draws+1)
	require.Zero(t, pixels(t, w, red), "red is for devices that are held twice")
	require.Greater(t, pixels(t, w, color.RGBA{0xf2, 0xa9, 0x00, 0xff}), 100, "dots")
	require.Greater(t, pixels(t, w, color.RGBA{0x8a, 0x5a, 0x00, 0xff}), 100, "the frame of the nearest node")
}

// changes: what happens in the cluster is seen without doing anything, and remembered while the page is open.
func changes(t *testing.T, w *browser, s *site, o whatif.Objects) {
	w.t = t
	run[any](w, "document.querySelector('#map').focus()")
	w.press(keyHome, keyRight, keyEnter)
	w.await(`document.querySelector("#details").innerText.includes("Nothing has changed.")`)
	version := number(t, w, "version")
	taken := o
	taken.Claims = append(o.Claims[:len(o.Claims):len(o.Claims)], b.Claim("new", b.Request("gpu", b.Driver)).Allocated("node-0", "gpu-1"))
	s.show(taken)
	w.await(`Number(document.documentElement.dataset.version) === arguments[0]`, version+1)
	w.await(`document.querySelector("#history")?.innerText.includes("allocated by default/new")`)
	w.await(`document.querySelector("#details").innerText.startsWith("allocated by default/new")`)
	s.show(o)
	w.await(`document.querySelectorAll("#history li").length === 2`)
	require.Regexp(t, "free$", w.text("#history li"))
	less := o
	less.Nodes, less.Slices = o.Nodes[1:], o.Slices[1:]
	s.show(less)
	w.await(`document.documentElement.dataset.shown === "47"`)
	s.show(o)
	w.await(`document.documentElement.dataset.shown === "48"`)
}

const pod = `apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: all}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: large, count: 8}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: mine}
spec:
  nodeSelector: {zone: a}
  containers: [{name: main, image: none}]
  resourceClaims: [{name: gpus, resourceClaimTemplateName: all}]
`

func whatIf(t *testing.T, w *browser) {
	w.t = t
	run[any](w, "document.querySelector('#manifest').value = arguments[0]", "kind: Service")
	w.click("#whatif button[type=submit]")
	w.await(`document.querySelector("#answer").innerText.includes("only Pod, ResourceClaim")`)
	run[any](w, "document.querySelector('#manifest').value = arguments[0]", pod)
	w.click("#whatif button[type=submit]")
	w.await(`document.querySelector("#answer .verdict")?.innerText === "Does not fit"`)
	run[any](w, "document.querySelector('#map').focus()")
	w.press(keyHome, keyEnter)
	w.await(`document.querySelector("#details").innerText.startsWith("allocated by research/job-0-0")`)
	w.click("#details li button") // do without it
	w.await(`document.querySelector("#answer .verdict")?.innerText === "Fits on node-0"`)
	require.Equal(t, gpus, run[int](w, "return document.querySelectorAll('#answer li').length"))
	w.click("#dropped button") // keep it
	w.await(`document.querySelector("#answer .verdict")?.innerText === "Does not fit"`)
}

// The page may be there before the cluster was read, and stays when the server goes.
func TestBeginningAndEnd(t *testing.T) {
	s := serveNothing(t)
	w := open(t, driver(t), 800, 600, "light")
	w.goTo(s.address)
	w.await(`document.querySelector("#summary").innerText === "The cluster is being read …"`)
	s.show(world(10, true))
	ready(w)
	w.await(`document.documentElement.dataset.shown === "10"`)
	require.Empty(t, w.complaints())
	require.True(t, run[bool](w, "return document.querySelector('#connection').hidden"))
	s.stop()
	w.await(`document.querySelector("#connection").innerText.startsWith("Not connected")`)
}

// Whoever does not have the token, or asks from another page, gets nothing.
func TestStrangers(t *testing.T) {
	s := serve(t, world(3, false))
	w := open(t, driver(t), 800, 600, "light")
	w.goTo(strings.Replace(s.address, s.address[len(s.address)-5:], "0000/", 1))
	require.Contains(t, w.text("body"), "the token in the address is wrong")

	// Another server on this machine, which has got to know the address.
	other := serve(t, world(1, false))
	w.goTo(other.address)
	ready(w)
	script := `const done = arguments[arguments.length - 1]; fetch(arguments[0], arguments[1]).then((r) => done(r.type + " " + r.status), (e) => done("refused"))`
	ask := func(options map[string]any) string {
		value := w.call(http.MethodPost, "/execute/async", map[string]any{"script": script, "args": []any{s.address + "api/state", options}})
		return string(value)
	}
	require.Equal(t, `"refused"`, ask(map[string]any{}), "by the policy of the page")
	// A page without a policy: the server has to refuse by itself.
	foreign := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>foreign</title>"))
	})}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = foreign.Serve(listener) }()
	t.Cleanup(func() { _ = foreign.Close() })
	w.goTo("http://" + listener.Addr().String() + "/")
	require.Equal(t, `"refused"`, ask(map[string]any{}))
	require.Equal(t, `"refused"`, ask(map[string]any{"mode": "no-cors"}))
	// It is the server that refuses, not only the browser.
	request, err := http.NewRequest(http.MethodGet, s.address+"api/state", nil)
	require.NoError(t, err)
	request.Header.Set("Origin", run[string](w, "return location.origin"))
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, http.StatusForbidden, response.StatusCode)
	loaded := w.call(http.MethodPost, "/execute/async", map[string]any{
		"script": `const done = arguments[arguments.length - 1]; const s = document.createElement("script"); s.src = arguments[0]; s.onload = () => done("loaded"); s.onerror = () => done("refused"); document.head.append(s)`,
		"args":   []any{s.address + "app.js"},
	})
	require.Equal(t, `"refused"`, string(loaded))
	framed := w.call(http.MethodPost, "/execute/async", map[string]any{
		"script": `const done = arguments[arguments.length - 1]; const f = document.createElement("iframe"); f.src = arguments[0]; f.onload = () => { let seen = false; try { seen = Boolean(f.contentDocument); } catch {} done(seen ? "readable" : "not readable"); }; document.body.append(f)`,
		"args":   []any{s.address},
	})
	require.Equal(t, `"not readable"`, string(framed))
}

// What the documents show is what the page looks like. WEBMAP_PICTURES=1 makes them anew.
func TestPictures(t *testing.T) {
	s := serve(t, world(48, true))
	address := driver(t)
	for name, test := range map[string]struct {
		width, height int
		scheme        string
	}{"webmap-1280.png": {1280, 800, "light"}, "webmap-390.png": {390, 844, "dark"}} {
		w := open(t, address, test.width, test.height, test.scheme)
		w.goTo(s.address)
		ready(w)
		require.Equal(t, test.scheme == "dark", run[bool](w, "return matchMedia('(prefers-color-scheme: dark)').matches"))
		require.EqualValues(t, test.width, run[float64](w, "return innerWidth"))
		require.LessOrEqual(t, run[float64](w, "return document.documentElement.scrollWidth"), float64(test.width), "nothing is cut off at the side")
		if test.width > 1000 {
			choose(w, "#group", b.Driver+"/numa")
			w.click("#fit-all")
			w.click("#waiting button")
			w.await(`document.querySelector("#explanation").innerText.includes("request gpus")`)
		}
		taken := w.picture()
		require.Less(t, len(taken), 300_000)
		require.Greater(t, colors(t, w), 4)
		path := filepath.Join("..", "..", "docs", name)
		if os.Getenv("WEBMAP_PICTURES") != "" {
			require.NoError(t, os.WriteFile(path, taken, 0o644))
		}
		require.FileExists(t, path)
	}
}

// Of large clusters, what is seen is drawn. How long that takes is logged.
func TestLargeClusters(t *testing.T) {
	address := driver(t)
	for _, nodes := range []int{1000, 5000} {
		o := world(nodes, false)
		s := serve(t, o)
		drawnUp := s.show(o)
		w := open(t, address, 1280, 800, "light")
		w.goTo(s.address)
		ready(w)
		require.EqualValues(t, nodes, number(t, w, "shown"))
		rendered := number(t, w, "rendered")
		first := number(t, w, "took")
		tiles := number(t, w, "drawn")
		var slowest float64
		for range 20 {
			draws := number(t, w, "draws")
			run[any](w, "document.querySelector('#map').scrollTop += 200; document.querySelector('#map').dispatchEvent(new Event('scroll'))")
			w.await(`Number(document.documentElement.dataset.draws) > arguments[0]`, draws)
			slowest = max(slowest, number(t, w, "took"))
		}
		run[any](w, "document.querySelector('#larger').click(); document.querySelector('#larger').click()")
		start := time.Now()
		w.click("#waiting button")
		w.await(`document.querySelector("#explanation").innerText.includes("request gpus")`)
		explained := time.Since(start)
		version := number(t, w, "version")
		o.Claims = append(o.Claims[:len(o.Claims):len(o.Claims)], b.Claim("new", b.Request("gpu", b.Driver)).Allocated("node-0", "gpu-7"))
		s.show(o)
		w.await(`Number(document.documentElement.dataset.version) > arguments[0]`, version)
		t.Logf("%d nodes: %v to draw the map up from objects, first rendering %.0f ms after navigation started (drawing %.0f tiles took %.1f ms), slowest of 20 while scrolling %.1f ms, %v from a click on a pod to why it waits",
			nodes, drawnUp.Round(time.Millisecond), rendered, tiles, first, slowest, explained.Round(time.Millisecond))
		assert.Less(t, tiles, 5000.0, "that many do not fit on the screen; only tiles that are seen are drawn")
		assert.Empty(t, w.complaints())
	}
}
