package facts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// Shape is a claim spec that several claims may have.
type Shape struct {
	// Name is the origin of the shape: a class, or the first claim or template that has it.
	Name string `json:"name"`
	// AsksFor describes the spec in a few words.
	AsksFor string `json:"asksFor"`
	// Seen counts the claims with this spec.
	Seen int `json:"seen"`
	// Free counts, for a class, its free devices: devices without a holder and without a taint, with enough counters
	// left.
	Free *int `json:"free,omitempty"`
	// More is the number of additional claims that fit now, each without other requirements (CPU, affinity). Cordoned
	// nodes do not count.
	More int `json:"more"`
	// AtLeast is set if More may be too low, because a search gave up.
	AtLeast bool `json:"atLeast,omitempty"`
	// Nodes counts the nodes with room for at least one claim.
	Nodes int `json:"nodes"`

	namespace string
	spec      resourceapi.ResourceClaimSpec
}

// Classes returns a shape with one device for each class.
func Classes(s *whatif.Snapshot) []Shape {
	var all []Shape
	for _, class := range s.Classes() {
		request := resourceapi.DeviceRequest{Name: "device", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class.Name}}
		spec := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request}}}
		all = append(all, Shape{Name: class.Name, AsksFor: asksFor(&spec), namespace: metav1.NamespaceDefault, spec: spec})
	}
	return all
}

// Seen returns the shapes of existing claims, the most frequent first, and at most most of them.
func Seen(s *whatif.Snapshot, most int) []Shape {
	bySpec := make(map[string]*Shape)
	for _, claim := range s.Claims() {
		key, err := claim.Spec.Marshal()
		if err != nil || len(claim.Spec.Devices.Requests) == 0 {
			continue
		}
		shape := bySpec[string(key)]
		if shape == nil {
			shape = &Shape{Name: whatif.Key(claim), AsksFor: asksFor(&claim.Spec), namespace: claim.Namespace, spec: claim.Spec}
			bySpec[string(key)] = shape
		}
		shape.Seen++
	}
	var all []Shape
	for _, shape := range bySpec {
		all = append(all, *shape)
	}
	slices.SortFunc(all, func(a, b Shape) int { return cmp.Or(cmp.Compare(b.Seen, a.Seen), cmp.Compare(a.Name, b.Name)) })
	return all[:min(len(all), most)]
}

// Count counts the additional claims of a shape that fit. It fills one node after the other. An error comes from the
// context.
func (shape *Shape) Count(ctx context.Context, s *whatif.Snapshot) error {
	shape.More, shape.Nodes, shape.AtLeast = 0, 0, false
	world := s
	for _, node := range s.Nodes() {
		if node.Spec.Unschedulable {
			continue
		}
		local := onlyLocal(s.PoolsOn(node))
		here, on := world, 0
		for {
			pod, claim := shape.one(shape.More)
			answer, err := here.With(whatif.Objects{Claims: []*resourceapi.ResourceClaim{claim}}).FitOn(ctx, pod, node.Name)
			if err != nil {
				return fmt.Errorf("count what fits on node %s: %w", node.Name, err)
			}
			if len(answer.Plans) == 0 {
				shape.AtLeast = shape.AtLeast || len(answer.Doubts) > len(s.Missing())
				break
			}
			here, on, shape.More = answer.After, on+1, shape.More+1
		}
		if on > 0 {
			shape.Nodes++
		}
		if !local {
			world = here // Other nodes cannot use the shared devices any more.
		}
	}
	return nil
}

// onlyLocal reports whether no other node can use the devices of the pools.
func onlyLocal(pools []*inventory.NodePool) bool {
	for _, pool := range pools {
		for i := range pool.Devices {
			if pool.Devices[i].Slice.Spec.NodeName == nil {
				return false
			}
		}
	}
	return true
}

// one returns a pod with one claim of the shape and no other requirements.
func (shape *Shape) one(number int) (*v1.Pod, *resourceapi.ResourceClaim) {
	name := fmt.Sprintf("counted-%d", number)
	meta := metav1.ObjectMeta{Namespace: shape.namespace, Name: name}
	claim := &resourceapi.ResourceClaim{ObjectMeta: meta, Spec: shape.spec}
	claim.UID = types.UID("counted/" + name)
	reference := v1.PodResourceClaim{Name: "claim", ResourceClaimName: &name}
	tolerations := []v1.Toleration{{Operator: v1.TolerationOpExists}}
	return &v1.Pod{ObjectMeta: meta, Spec: v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{reference}, Tolerations: tolerations}}, claim
}

// asksFor describes a claim spec in a few words, for example "2 gpu.example.com with memory 40Gi where …".
func asksFor(spec *resourceapi.ResourceClaimSpec) string {
	var texts []string
	for i := range spec.Devices.Requests {
		var alternatives []string
		for request := range dra.Alternatives(&spec.Devices.Requests[i]) {
			alternatives = append(alternatives, asks(&request))
		}
		texts = append(texts, strings.Join(alternatives, " or "))
	}
	for i := range spec.Devices.Constraints {
		switch c := &spec.Devices.Constraints[i]; {
		case c.MatchAttribute != nil:
			texts = append(texts, "same "+string(*c.MatchAttribute))
		case c.DistinctAttribute != nil:
			texts = append(texts, "different "+string(*c.DistinctAttribute))
		}
	}
	return strings.Join(texts, ", ")
}

func asks(request *dra.Request) string {
	text := fmt.Sprintf("%d %s", max(request.Count, 1), request.Class)
	if request.All() {
		text = "all " + request.Class
	}
	if capacity := request.Capacity; capacity != nil {
		before := " with "
		for _, name := range slices.Sorted(maps.Keys(capacity.Requests)) {
			amount := capacity.Requests[name]
			text += before + string(name) + " " + amount.String()
			before = " and "
		}
	}
	before := " where "
	for _, selector := range request.Selectors {
		if selector.CEL != nil {
			text += before + strings.Join(strings.Fields(selector.CEL.Expression), " ")
			before = " and "
		}
	}
	if request.AdminAccess {
		text += " (admin access)"
	}
	return text
}
