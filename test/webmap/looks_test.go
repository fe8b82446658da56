package webmap

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// canvas returns a picture of the page, and where the map is on it.
func canvas(t *testing.T, w *browser) (image.Image, image.Rectangle) {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(w.picture()))
	require.NoError(t, err)
	bounds := run[map[string]float64](w, "return document.querySelector('#map').getBoundingClientRect().toJSON()")
	return picture, image.Rect(int(bounds["left"]), int(bounds["top"]), int(bounds["right"]), int(bounds["bottom"])).Intersect(picture.Bounds())
}

// colors counts the colours of which the canvas has more than a few pixels.
func colors(t *testing.T, w *browser) int {
	t.Helper()
	picture, inside := canvas(t, w)
	count := make(map[color.Color]int)
	for x := inside.Min.X; x < inside.Max.X; x++ {
		for y := inside.Min.Y; y < inside.Max.Y; y++ {
			count[picture.At(x, y)]++
		}
	}
	many := 0
	for _, n := range count {
		if n > 150 {
			many++
		}
	}
	return many
}

// pixels counts the pixels of a colour on the map.
func pixels(t *testing.T, w *browser, of color.Color) (n int) {
	t.Helper()
	picture, inside := canvas(t, w)
	for x := inside.Min.X; x < inside.Max.X; x++ {
		for y := inside.Min.Y; y < inside.Max.Y; y++ {
			if color.RGBAModel.Convert(picture.At(x, y)) == of {
				n++
			}
		}
	}
	return n
}

// TestPhone: on a narrow screen, filters and legend are folded, and the map begins near the top.
func TestPhone(t *testing.T) {
	s := serve(t, world(48, true))
	w := open(t, driver(t), 390, 844, "light")
	w.goTo(s.address)
	ready(w)
	top := func() float64 {
		return run[float64](w, "return document.querySelector('#map').getBoundingClientRect().top")
	}
	require.Less(t, top(), 844.0/4)
	require.False(t, run[bool](w, "return document.querySelector('#filters').checkVisibility() || document.querySelector('#legend').checkVisibility()"))
	folded := top()
	w.click("#filter-box summary")
	w.await(`document.querySelector("#filters").checkVisibility()`)
	w.write("#labels", "zone=a")
	w.press(keyEnter)
	w.await(`document.querySelector("#filter-result").innerText.includes("on 16 nodes match")`)
	w.click("#filter-box summary")
	w.await(`!document.querySelector("#filters").checkVisibility()`)
	require.Contains(t, w.text("#filter-result"), "on 16 nodes match", "a folded filter still says what it does")
	require.InDelta(t, folded, top(), 40)
}

// TestLabels: tiles have no domain that all nodes share, and lose their middle if they are still too long.
func TestLabels(t *testing.T) {
	s := serve(t, world(1, false))
	w := open(t, driver(t), 800, 600, "light")
	w.goTo(s.address)
	ready(w)
	script := `const done = arguments[arguments.length - 1];
		Promise.all([import("./store.js"), import("./paint.js")]).then(([store, paint]) => done([
			store.commonDomain(["ip-10-0-1-7.eu-west-1.compute.internal", "ip-10-0-1-8.eu-west-1.compute.internal"]),
			store.commonDomain(["a.one.example", "b.two.example"]), store.commonDomain(["a", "b.example"]), store.commonDomain(["a.example"]),
			paint.shortened("gpu-pool-a-000123", 12), paint.shortened("gpu-0", 12)].join(" ")))`
	got := w.call(http.MethodPost, "/execute/async", map[string]any{"script": script, "args": []any{}})
	require.JSONEq(t, `".eu-west-1.compute.internal .example   gpu-…-000123 gpu-0"`, string(got))
}
