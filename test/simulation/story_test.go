package simulation

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

var update = flag.Bool("update", false, "write testdata/story.txt anew")

// handingOver returns a history without chance: a pod has the only device, and another one gets it when that one is deleted.
func handingOver() *History {
	pod := func(name string) func(*World) {
		return func(w *World) { w.createPodWithClaim(name, builder.Request("r", "gpu"), "1", 0) }
	}
	return &History{seed: 1, length: 6, replicas: 1, steps: []step{
		{0, "create node node-0", func(w *World) { w.createNode("node-0") }},
		{0, "node-0 publishes one device", func(w *World) {
			slice := builder.Slice("node-0").OfDriver(driver).InPool("node-0", 1, 1).OnNode("node-0").Devices(builder.Device("dev-0")).Obj()
			ignore(w.client.ResourceV1().ResourceSlices().Create(w.ctx, slice, metav1.CreateOptions{}))
		}},
		{0, "create class gpu", func(w *World) { w.createClass("gpu") }},
		{10 * time.Second, "create pod early with a claim", pod("early")},
		{10 * time.Second, "create pod late with a claim", pod("late")},
		{time.Minute, "delete pod early", func(w *World) { w.deletePod("early") }},
	}}
}

// TestStory: a history is told so that people can read it. This one has bad weather for nobody, so it is the same each time.
func TestStory(t *testing.T) {
	h := handingOver()
	w := Live(t, h, func(w *World) { w.weather = Weather{} })
	require.Empty(t, w.failures)
	w.failures = []string{"(Nothing: this is an example.)"}
	story := Story(h, w, len(h.steps), 0)
	// Informers are waited for in steps of a tenth of a second: one who is late for one of them is there with the next.
	story = strings.Replace(story, "    0.100s  scheduler-0 leads", "    0.000s  scheduler-0 leads", 1)
	if *update {
		require.NoError(t, os.WriteFile("testdata/story.txt", []byte(story), 0o600))
	}
	want, err := os.ReadFile("testdata/story.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), story)
}

// TestShrink: what has nothing to do with a failure is left out.
func TestShrink(t *testing.T) {
	var h History
	for i := range 100 {
		h.steps = append(h.steps, step{after: time.Duration(i) * time.Millisecond, text: string(rune('0' + i%10))})
	}
	h.replicas = 3
	fails := func(h *History) *World {
		w := &World{}
		seen := map[string]bool{}
		for _, s := range h.steps {
			seen[s.text] = true
		}
		if seen["3"] && seen["7"] {
			w.failures = []string{"PodCouldRun: pod-1"}
		}
		return w
	}
	small, _, _ := Shrink(&h, fails(&h), time.Minute, fails)
	require.Len(t, small.steps, 2)
	require.Equal(t, 1, small.replicas)
	require.Zero(t, small.steps[0].after)
}

func TestKindOfFailure(t *testing.T) {
	require.Equal(t, "PodCouldRun", kindOfFailure("PodCouldRun: pod default/pod-31: it waits"))
	require.Equal(t, kindOfFailure("device {gpu.example.com node-0 dev-2} is allocated to claims claim-13 and pod-49-big-00127"),
		kindOfFailure("device {gpu.example.com node-1 dev-0} is allocated to claims claim-1 and pod-7-one-00001"))
}
