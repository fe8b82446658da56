package schedulerlibrary

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	// maintenance is the key of a taint.
	maintenance = "example.com/maintenance"
	// zone is a label of nodes.
	zone = "zone"
)

// TestSameNodes: pods fit on the same nodes for both.
func TestSameNodes(t *testing.T) {
	const count = 300
	r := rand.New(rand.NewPCG(1, 1))
	worlds := make([]world, count)
	for i := range worlds {
		worlds[i] = randomWorld(r)
	}
	fits, others := 0, 0
	for i, theirs := range upstream(t, worlds) {
		mine := ours(t, &worlds[i])
		for p, pod := range worlds[i].Asked {
			require.ElementsMatch(t, theirs.Fits[p], mine.Fits[p], "pod %s of world %d", pod.Name, i)
			fits += len(mine.Fits[p])
			others += len(worlds[i].Nodes) - len(mine.Fits[p])
		}
	}
	t.Logf("%d pairs of a pod and a node fit, %d do not", fits, others)
	require.Greater(t, fits, count)
	require.Greater(t, others, count)
}

// TestSameRoom: as many pods with equal claims have a place for both.
func TestSameRoom(t *testing.T) {
	w := equalNodes(100)
	for i := range 350 { // For 300, there are devices.
		w.ask(builder.Claim(fmt.Sprintf("asked-%03d", i), builder.Request("gpu", builder.Driver)))
	}
	theirs, mine := upstream(t, []world{w})[0], ours(t, &w)
	require.Equal(t, 300, mine.Placed)
	require.Equal(t, theirs.Placed, mine.Placed)
	t.Logf("where each of %d pods fits: %v for the library, %v for ours; all in turn: %v and %v", len(w.Asked), theirs.Alone, mine.Alone, theirs.InTurn, mine.InTurn)
}

// equalNodes is a world of nodes with eight devices, five of which are in use.
func equalNodes(count int) (w world) {
	w.Classes = []*resourceapi.DeviceClass{builder.DriverClass(builder.Driver)}
	for i := range count {
		w.node(fmt.Sprintf("node-%03d", i), nil, builder.NumberedDevices("gpu", 8), 5)
	}
	return w
}

// node adds a node on which a pod has the first devices.
func (w *world) node(name string, edit func(*v1.Node), devices []*builder.DeviceBuilder, inUse int) {
	node := builder.Node(name)
	node.Status.Allocatable = builder.Resources("cpu", "8", "memory", "32Gi", "pods", "110")
	if edit != nil {
		edit(node)
	}
	w.Nodes = append(w.Nodes, node)
	slice := builder.NodeSlice(name, devices...).Obj()
	w.Slices = append(w.Slices, slice)
	if inUse == 0 {
		return
	}
	var names []string
	for _, device := range slice.Spec.Devices[:inUse] {
		names = append(names, device.Name)
	}
	holder := "holder-" + name
	claim := builder.Claim(holder, builder.Request("gpu", builder.Driver).Count(int64(inUse))).Allocated(name, names...)
	pod := builder.Pod(holder, builder.Using(builder.Uses(holder)...), builder.Container("main", "cpu", "3"))
	pod.Spec.NodeName = name
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: holder, UID: pod.UID}}
	w.Claims, w.Pods = append(w.Claims, claim), append(w.Pods, pod)
}

// ask asks where a pod with a claim fits. It has the claim's name.
func (w *world) ask(claim *builder.ClaimBuilder, edits ...func(*v1.Pod)) {
	made := claim.Obj()
	w.Claims = append(w.Claims, made)
	w.Asked = append(w.Asked, builder.Pod(made.Name, append(edits, builder.Using(builder.Uses(made.Name)...))...))
}

// randomWorld has a few nodes that differ, and a few pods that ask for different things.
func randomWorld(r *rand.Rand) (w world) {
	w.Classes = []*resourceapi.DeviceClass{builder.DriverClass(builder.Driver)}
	for i := range 1 + r.IntN(6) {
		w.randomNode(r, fmt.Sprintf("node-%d", i))
	}
	for i := range 1 + r.IntN(4) {
		w.randomQuestion(r, fmt.Sprintf("asked-%d", i))
	}
	return w
}

// kinds are the values of attributes and labels that differ.
var kinds = []string{"a", "b"}

// some reports true in so many of 100 cases.
func some(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

func (w *world) randomNode(r *rand.Rand, name string) {
	devices := builder.NumberedDevices("gpu", r.IntN(5))
	for _, device := range devices {
		device.Attr("numa", r.IntN(2)).Attr("model", kinds[r.IntN(2)])
	}
	w.node(name, func(node *v1.Node) {
		node.Labels[zone] = kinds[r.IntN(2)]
		node.Spec.Unschedulable = some(r, 10)
		if some(r, 20) {
			node.Spec.Taints = []v1.Taint{{Key: maintenance, Effect: v1.TaintEffectNoSchedule}}
		}
	}, devices, r.IntN(len(devices)+1))
}

func (w *world) randomQuestion(r *rand.Rand, name string) {
	request := builder.Request("gpu", builder.Driver).Count(int64(1 + r.IntN(3)))
	if some(r, 40) {
		request.Where(fmt.Sprintf("device.attributes[%q].model == %q", builder.Driver, kinds[r.IntN(2)]))
	}
	claim := builder.Claim(name, request)
	switch { // Not both: the library ends with an error where not all devices have the same value.
	case some(r, 10):
		claim = builder.Claim(name, request.All())
	case some(r, 30):
		claim.Match(builder.Driver + "/numa")
	}
	w.ask(claim, builder.Container("main", "cpu", fmt.Sprint(1+r.IntN(8))), func(pod *v1.Pod) {
		if some(r, 30) {
			pod.Spec.NodeSelector = map[string]string{zone: kinds[r.IntN(2)]}
		}
		if some(r, 30) {
			pod.Spec.Tolerations = []v1.Toleration{{Key: maintenance, Operator: v1.TolerationOpExists}}
		}
	})
}
