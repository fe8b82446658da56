package devices

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"

	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// network is the model of devices that all nodes reach; those of the other models are their node's own.
const network = 2

var models = []string{"small", "large", "network"}

// world is a small cluster and a gang. Devices of a model are interchangeable, so that it can be described in numbers.
type world struct {
	// devices is the number of a node's own devices by model, and shared the number of devices that all nodes reach.
	devices [][2]int
	shared  int
	// offers holds the nodes where a device plugin offers the pods' extended resources, so that they need no devices.
	offers []bool
	// room is the number of pods that a node takes.
	room []int
	pods []wanted
	// need is the number of pods that must be placed.
	need int
}

// wanted is the demand of a pod: a number of devices of a model, by its own claim, by a claim that others use as well,
// or by extended resources.
type wanted struct {
	model, count       int
	together, extended bool
}

// randomWorld returns a random world. Pods that are alike follow each other.
func randomWorld(r *rand.Rand) *world {
	w := &world{shared: r.IntN(3)}
	for range 1 + r.IntN(4) {
		w.devices, w.room = append(w.devices, [2]int{r.IntN(4), r.IntN(3)}), append(w.room, r.IntN(4))
		w.offers = append(w.offers, r.IntN(4) == 0)
	}
	together := r.IntN(4) == 0
	for range 1 + r.IntN(2) {
		kind := wanted{model: r.IntN(3), count: 1 + r.IntN(2), together: together, extended: !together && r.IntN(3) == 0}
		together = false
		for range 1 + r.IntN(2) {
			w.pods = append(w.pods, kind)
		}
	}
	w.need = 1 + r.IntN(len(w.pods))
	return w
}

// fits is an exhaustive search: can a number of the pods from some position on be placed?
func (w *world) fits(pod, need int, at []int) bool {
	if need <= 0 {
		return true
	}
	if pod == len(w.pods) {
		return false
	}
	p := w.pods[pod]
	for node := range w.devices {
		if w.room[node] == 0 {
			continue
		}
		w.room[node]--
		free := &w.shared
		if p.model != network {
			free = &w.devices[node][p.model]
		}
		count, far := p.count, false
		if p.extended && w.offers[node] {
			count = 0
		}
		for before, where := range at {
			if p.together && where >= 0 && w.pods[before].together {
				count, far = 0, p.model != network && where != node
			}
		}
		ok := false
		if !far && *free >= count {
			*free -= count
			ok = w.fits(pod+1, need-1, append(at, node))
			*free += count
		}
		w.room[node]++
		if ok {
			return true
		}
	}
	return w.fits(pod+1, need, append(at, -1))
}

// rooms implements Others: nodes take a limited number of pods.
type rooms struct {
	left  []int
	added []int
}

func (r *rooms) Add(_, node int, _ *v1.Pod) search.Answer {
	if r.left[node] == 0 {
		return search.No
	}
	r.left[node]--
	r.added = append(r.added, node)
	return search.Yes
}

func (r *rooms) Remove() {
	r.left[r.added[len(r.added)-1]]++
	r.added = r.added[:len(r.added)-1]
}

type classes struct{}

func (classes) Get(name string) (*resourceapi.DeviceClass, error) { return builder.Class(name), nil }
func (classes) List() ([]*resourceapi.DeviceClass, error) {
	return []*resourceapi.DeviceClass{builder.Class("gpu")}, nil
}

var solver = &allocator.Solver{Features: allocator.Supported, Classes: classes{}, Evaluator: selector.NewEvaluator(cel.NewCache(10, cel.Features{}))}

// numbered returns devices of a model.
func numbered(model, n int) (devices []*builder.DeviceBuilder) {
	for i := range n {
		devices = append(devices, builder.Device(fmt.Sprintf("%s-%d", models[model], i)).Attr("model", models[model]))
	}
	return devices
}

// made returns a claim that is needed only on nodes where no device plugin offers the resource.
func (w *world) made(claim *resourceapi.ResourceClaim) *Made {
	return &Made{Most: claim, Varies: true, Variants: variants{claim, w.offers}}
}

// variants are the variants of a claim where device plugins on some nodes offer the resource.
type variants struct {
	claim  *resourceapi.ResourceClaim
	offers []bool
}

func (v variants) On(node *v1.Node) (*resourceapi.ResourceClaim, string) {
	for i, offers := range v.offers {
		if offers && node.Name == fmt.Sprintf("n%d", i) {
			return nil, "-"
		}
	}
	return v.claim, "d"
}

// plainSites are the nodes, without an objective.
type plainSites struct {
	store *inventory.Store
	usage ledger.View
}

func (s plainSites) Site(node *v1.Node) allocator.NodeView {
	return allocator.NodeView{Node: node, Pools: s.store.OnNode(node), Usage: s.usage}
}

func (s plainSites) Valued(node *v1.Node) allocator.NodeView { return s.Site(node) }

// objects returns the world as API objects, and the trial.
func (w *world) objects(t testing.TB) (*Trial, search.Problem) {
	var slices []*resourceapi.ResourceSlice
	world := World{Solver: solver, Shared: true, Others: &rooms{left: append([]int(nil), w.room...)}}
	problem := search.Problem{Need: w.need, Steps: 5000}
	for i, own := range w.devices {
		node := builder.Node(fmt.Sprintf("n%d", i))
		world.Nodes, problem.Nodes = append(world.Nodes, node), append(problem.Nodes, i)
		slices = append(slices, builder.NodeSlice(node.Name, append(numbered(0, own[0]), numbered(1, own[1])...)...).Obj())
	}
	slices = append(slices, builder.Slice("shared").InPool("shared", 1, 1).OnAllNodes().Devices(numbered(network, w.shared)...).Obj())
	store := inventory.FromSlices(slices, allocator.InventoryOptions(allocator.Supported))
	usage := ledger.New()
	world.Sites = plainSites{store, usage}
	var before *wanted
	for i := range w.pods {
		p := &w.pods[i]
		name := fmt.Sprintf("p%d", i)
		claim := name
		if p.together {
			claim = "together"
		}
		object := builder.Claim(claim, builder.Request("r", "gpu").Count(int64(p.count)).Where(fmt.Sprintf(`device.attributes[%q].model == %q`, builder.Driver, models[p.model]))).Obj()
		object.UID = types.UID("uid-" + claim)
		pod := Pod{Pod: builder.Pod(name), Open: []*resourceapi.ResourceClaim{object}}
		if p.extended {
			pod.Open, pod.Made = nil, w.made(object)
		}
		pod.UID = types.UID(name)
		if before == nil || *before != *p {
			world.Classes, problem.Classes = append(world.Classes, nil), append(problem.Classes, search.Class{})
		}
		before = p
		last := len(world.Classes) - 1
		world.Classes[last] = append(world.Classes[last], pod)
		problem.Classes[last].Pods++
	}
	require.NotEmpty(t, world.Classes)
	return New(t.Context(), world), problem
}
