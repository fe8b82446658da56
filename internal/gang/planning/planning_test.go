package planning

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/builder"
	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/internal/gang/trial"
	"github.com/quartermaster-dra/quartermaster/internal/noderoom"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// roomOnly is a kube-scheduler whose only other plugin looks at CPU, memory and the number of pods.
type roomOnly struct{}

func (roomOnly) RunPreFilterPlugins(context.Context, fwk.CycleState, *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	return nil, nil, nil
}

func (roomOnly) RunFilterPluginsWithNominatedPods(_ context.Context, _ fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if !noderoom.On(info).Holds(noderoom.Of(pod)) {
		return fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu")
	}
	return nil
}

func (roomOnly) RunPreFilterExtensionAddPod(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

func (roomOnly) RunPreFilterExtensionRemovePod(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

type classLister struct{}

func (classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	return builder.Class(name), nil
}
func (classLister) List() ([]*resourceapi.DeviceClass, error) {
	return []*resourceapi.DeviceClass{builder.Class("gpu")}, nil
}

// node has some GPUs and CPUs, in a rack.
type node struct {
	gpus int
	cpu  string
	rack string
}

// plannerFor makes a planner for nodes n0, n1 and so on.
func plannerFor(nodes ...node) *Planner {
	p := &Planner{
		Framework: roomOnly{}, Mark: func(fwk.CycleState) {}, Steps: 1000,
		Solver: &allocator.Solver{Features: allocator.Supported, Classes: classLister{}, Evaluator: selector.NewEvaluator(cel.NewCache(10, cel.Features{}))},
	}
	var slices []*resourceapi.ResourceSlice
	for i, n := range nodes {
		object := builder.Node(fmt.Sprintf("n%d", i), "rack", n.rack)
		object.Status.Allocatable = builder.Resources("cpu", n.cpu, "memory", "1Ti", "pods", "100")
		slices = append(slices, builder.NodeSlice(object.Name, builder.NumberedDevices("gpu", n.gpus)...).Obj())
		info := framework.NewNodeInfo()
		info.SetNode(object)
		p.Nodes = append(p.Nodes, info)
	}
	store, usage := inventory.FromSlices(slices, allocator.InventoryOptions(allocator.Supported)), ledger.New()
	site := func(node *v1.Node) allocator.Site {
		return allocator.Site{Node: node, Pools: store.OnNode(node), Usage: usage}
	}
	p.View = func(context.Context, *v1.Pod) (*View, error) { return &View{Site: site, Valued: site}, nil }
	p.Describe = func(pod *v1.Pod) (Member, error) {
		claim := builder.Claim(pod.Name, builder.Request("gpu", "gpu")).Obj()
		claim.UID = types.UID("claim-" + pod.Name)
		return Member{Pod: trial.Pod{Pod: pod, Open: []*resourceapi.ResourceClaim{claim}}, Claims: "one GPU"}, nil
	}
	return p
}

// gangOf is a gang of pods that take a core and a GPU each.
func gangOf(pods, need int, wish domain.Wish) Gang {
	g := Gang{Name: "default/gang", Need: need, Wish: wish}
	for i := range pods {
		pod := builder.Pod(fmt.Sprintf("p%d", i), builder.Container("c", "cpu", "1"))
		pod.UID = types.UID(pod.Name)
		g.Pods = append(g.Pods, pod)
	}
	return g
}

func where(o *Outcome) map[string]int {
	pods := make(map[string]int)
	for _, seat := range o.Plan.Seats {
		pods[seat.Node]++
	}
	return pods
}

func TestPlan(t *testing.T) {
	t.Parallel()
	rack := domain.Key{Label: "rack"}
	tests := map[string]struct {
		nodes      []node
		pods, need int
		wish       domain.Wish
		want       map[string]int
		why        string
	}{
		"fits":            {nodes: []node{{gpus: 2, cpu: "8"}, {gpus: 2, cpu: "8"}}, pods: 3, need: 3, want: map[string]int{"n0": 2, "n1": 1}},
		"devices missing": {nodes: []node{{gpus: 2, cpu: "8"}}, pods: 3, need: 3, why: "2 of 3 pods fit: 1 more device of class gpu; held by b"},
		"room missing":    {nodes: []node{{gpus: 4, cpu: "2"}}, pods: 3, need: 3, why: "2 of 3 pods fit: 1 more device of class gpu, 1 node: Insufficient cpu; held by b"},
		"as many as fit":  {nodes: []node{{gpus: 4, cpu: "3"}}, pods: 5, need: 2, want: map[string]int{"n0": 3}},
		"one rack": {nodes: []node{{gpus: 2, cpu: "8", rack: "a"}, {gpus: 4, cpu: "8", rack: "b"}, {gpus: 1, cpu: "8", rack: "b"}}, pods: 4, need: 4,
			wish: domain.Wish{Key: rack, Required: true}, want: map[string]int{"n1": 4}},
		"no rack": {nodes: []node{{gpus: 2, cpu: "8", rack: "a"}, {gpus: 3, cpu: "8", rack: "b"}}, pods: 4, need: 4,
			wish: domain.Wish{Key: rack, Required: true}, why: "3 of 4 pods fit into one domain (label=rack): 1 more device of class gpu; held by b"},
		"few racks": {nodes: []node{{gpus: 1, cpu: "8", rack: "a"}, {gpus: 2, cpu: "8", rack: "b"}, {gpus: 3, cpu: "8", rack: "c"}}, pods: 4, need: 4,
			wish: domain.Wish{Key: rack}, want: map[string]int{"n0": 1, "n2": 3}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcome, err := plannerFor(test.nodes...).Plan(t.Context(), gangOf(test.pods, test.need, test.wish))
			require.NoError(t, err)
			require.Equal(t, test.why, outcome.Reason(func([]string) string { return "held by b" }))
			if test.want != nil {
				require.Equal(t, test.want, where(outcome))
				require.Len(t, outcome.Plan.Allocations, len(outcome.Plan.Seats))
			}
		})
	}
}

// TestAlike: what tells pods of a controller apart does not make them differ, and what plugins look at does.
func TestAlike(t *testing.T) {
	t.Parallel()
	pod := func(change func(*v1.Pod)) string {
		p := builder.Pod("p", builder.Container("c", "cpu", "1"))
		change(p)
		return shapeOf(p)
	}
	plain := pod(func(*v1.Pod) {})
	require.Equal(t, plain, pod(func(p *v1.Pod) { p.Name, p.UID = "q", "other" }))
	require.Equal(t, plain, pod(func(p *v1.Pod) { p.Spec.Hostname = "p-1" }))
	for name, change := range map[string]func(*v1.Pod){
		"label":    func(p *v1.Pod) { p.Labels = map[string]string{"app": "x"} },
		"selector": func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} },
		"volume": func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		},
		"requests": func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = builder.Resources("cpu", "2") },
	} {
		require.NotEqual(t, plain, pod(change), name)
	}
}
