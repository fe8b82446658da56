package planning

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/quartermaster-dra/quartermaster/internal/gang/devices"
	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

type classLister struct{}

func (classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	return builder.Class(name, builder.OfDriver(builder.Driver)), nil
}

func (classLister) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }

// node returns a node with GPUs and CPUs, in a rack. For each clique it has one more device, with the clique as an
// attribute.
type node struct {
	gpus    int
	cpu     string
	rack    string
	cliques []string
	edit    func(*v1.Node)
}

// lister is a snapshot that can be replaced.
type lister struct{ *schedulercache.Snapshot }

// nominations are pods that are nominated for nodes.
type nominations map[string][]fwk.PodInfo

func (n nominations) NominatedPodsForNode(name string) []fwk.PodInfo                      { return n[name] }
func (n nominations) AddNominatedPod(_ klog.Logger, _ fwk.PodInfo, _ *fwk.NominatingInfo) {}
func (n nominations) DeleteNominatedPodIfExists(*v1.Pod)                                  {}
func (n nominations) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)                {}

// world is a cluster with all plugins of kube-scheduler, except the one for devices.
type world struct {
	tb        testing.TB
	nodes     []*v1.Node
	running   []*v1.Pod
	nominated nominations
	store     *inventory.Store
	uses      []ledger.Use
	lister    *lister
	framework framework.Framework
	solver    *allocator.Solver
	// gpus returns the number of GPUs that a pod requests, in one claim.
	gpus func(*v1.Pod) int64
	// shared is set if several nodes may reach the same devices.
	shared bool
	// unfit is why no node can take the pods of these names.
	unfit map[string]error
}

// newWorld returns a cluster with nodes n0, n1 and so on.
func newWorld(tb testing.TB, nodes ...node) *world {
	tb.Helper()
	w := &world{tb: tb, nominated: make(nominations), gpus: func(*v1.Pod) int64 { return 1 }, lister: new(lister)}
	var published []*resourceapi.ResourceSlice
	for i, n := range nodes {
		object := builder.Node(fmt.Sprint("n", i), "kubernetes.io/hostname", fmt.Sprint("n", i))
		if n.rack != "" {
			object.Labels["rack"] = n.rack
		}
		object.Status.Allocatable = builder.Resources("cpu", cmp.Or(n.cpu, "64"), "memory", "1Ti", "pods", "110")
		if n.edit != nil {
			n.edit(object)
		}
		w.nodes = append(w.nodes, object)
		devices := builder.NumberedDevices("gpu", n.gpus)
		for at, clique := range n.cliques {
			devices = append(devices, builder.Device(fmt.Sprint("linked-", at)).Attr("clique", clique))
		}
		if len(devices) > 0 {
			published = append(published, builder.NodeSlice(object.Name, devices...).Obj())
		}
	}
	w.store = inventory.FromSlices(published, allocator.InventoryOptions(allocator.Supported))
	w.solver = &allocator.Solver{
		Features: allocator.Supported, Classes: classLister{}, Evaluator: selector.NewEvaluator(cel.NewCache(10, cel.Features{})),
	}
	w.framework = w.newFramework()
	return w
}

// newFramework returns a profile with all default plugins except the one for devices.
func (w *world) newFramework() framework.Framework {
	schedulermetrics.Register()
	defaults, err := latest.Default()
	require.NoError(w.tb, err)
	profile := &defaults.Profiles[0]
	profile.Plugins.MultiPoint.Enabled = slices.DeleteFunc(profile.Plugins.MultiPoint.Enabled, func(p config.Plugin) bool {
		return p.Name == names.DynamicResources
	})
	ctx, cancel := context.WithCancel(context.Background())
	w.tb.Cleanup(cancel)
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	made, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(w.lister), frameworkruntime.WithPodNominator(w.nominated),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	)
	require.NoError(w.tb, err)
	return made
}

// planner returns a planner for the current cluster.
func (w *world) planner() *Planner {
	w.lister.Snapshot = schedulercache.NewSnapshot(w.running, w.nodes)
	usage := ledger.WhatIf(ledger.New(), nil, w.uses)
	p := &Planner{Framework: w.framework, Steps: 2000, Solver: w.solver}
	for _, node := range w.nodes {
		info, err := w.lister.NodeInfos().Get(node.Name)
		require.NoError(w.tb, err)
		p.Nodes = append(p.Nodes, info)
	}
	p.Pods = described{w, usage}
	return p
}

// described implements Pods, and devices.Sites without an objective.
type described struct {
	*world
	usage ledger.View
}

func (d described) Site(node *v1.Node) allocator.NodeView {
	return allocator.NodeView{Node: node, Pools: d.store.OnNode(node), Usage: d.usage}
}

func (d described) Valued(node *v1.Node) allocator.NodeView { return d.Site(node) }

func (d described) View(context.Context, *v1.Pod) (*View, error) {
	return &View{Sites: d, Shared: d.shared}, nil
}

func (d described) Describe(pod *v1.Pod) (Member, error) {
	m := Member{Pod: devices.Pod{Pod: pod}, Unfit: d.unfit[pod.Name]}
	if gpus := d.gpus(pod); gpus > 0 {
		claim := builder.Claim(pod.Name, builder.Request("gpu", "gpu").Count(gpus)).Obj()
		claim.UID = "claim-" + pod.UID
		m.Open, m.Claims = []*resourceapi.ResourceClaim{claim}, fmt.Sprint(gpus, " of class gpu")
	}
	return m, nil
}

// bind runs the pods of a plan.
func (w *world) bind(plan *devices.Plan) {
	for _, assignment := range plan.Assignments {
		pod := assignment.Pod.DeepCopy()
		pod.Spec.NodeName = assignment.Node
		w.running = append(w.running, pod)
		for _, claim := range assignment.Claims {
			w.uses = append(w.uses, ledger.Use{Claim: ledger.ClaimRef{Name: claim.Name}, Allocation: plan.Allocations[claim.UID]})
		}
	}
}

// gangOf returns a gang of pods that take a core and a GPU each.
func gangOf(pods, need int, wish domain.Wish, edits ...func(*v1.Pod)) Gang {
	g := Gang{Name: "default/gang", Need: need, Wish: wish}
	for i := range pods {
		pod := builder.Pod(fmt.Sprint("p", i), append([]func(*v1.Pod){builder.Container("c", "cpu", "1")}, edits...)...)
		pod.UID = types.UID(pod.Name)
		g.Pods = append(g.Pods, pod)
	}
	return g
}
