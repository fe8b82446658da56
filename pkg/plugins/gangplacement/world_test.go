package gangplacement

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/quartermaster-dra/quartermaster/internal/cluster"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/quartermaster"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestMain turns on what kube-scheduler's snapshot needs to know of groups.
func TestMain(m *testing.M) {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		string(features.GenericWorkload): true, string(features.TopologyAwareWorkloadScheduling): true,
	}); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// clique is an attribute of builder.Driver.
const clique = builder.Driver + "/clique"

// world is the plugin's input: nodes, devices, claims, a group and its pods.
type world struct {
	t        *testing.T
	nodes    []*v1.Node
	slices   []*builder.SliceBuilder
	claims   []*resourceapi.ResourceClaim
	group    *schedulingapi.PodGroup
	running  []*v1.Pod
	waiting  []*v1.Pod
	snapshot *schedulercache.Snapshot
	pl       *Plugin
	state    *framework.CycleState
	made     []*fwk.Placement
}

func newWorld(t *testing.T, annotation, value string) *world {
	t.Helper()
	w := &world{t: t, group: &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "gang", Namespace: builder.Namespace}}}
	if annotation != "" {
		w.group.Annotations = map[string]string{annotation: value}
	}
	return w
}

// node adds a node with devices, by the value of attribute clique.
func (w *world) node(labels []string, cliques ...any) *world {
	name := fmt.Sprint("n", len(w.nodes))
	w.nodes = append(w.nodes, builder.Node(name, labels...))
	slice := builder.NodeSlice(name)
	for i, value := range cliques {
		slice.Devices(builder.Device(fmt.Sprint("gpu-", i)).Attr("clique", value))
	}
	w.slices = append(w.slices, slice)
	return w
}

// runs adds a running pod of the group on a node, with a claim for one device; without device, the pod has no claim.
func (w *world) runs(node, device string) *world {
	name := fmt.Sprint("running-", len(w.running))
	pod := builder.Pod(name)
	if device != "" {
		claim := builder.Claim(name, builder.Request("gpu", "gpu")).Allocated(node, device)
		w.claims = append(w.claims, claim)
		pod.Spec.ResourceClaims = builder.Uses(name)
	}
	pod.Spec.NodeName = node
	w.running = append(w.running, w.member(pod))
	return w
}

// waits adds waiting pods of the group, each with a claim of a class; without class, they have no claim.
func (w *world) waits(count int, class string) *world {
	for range count {
		name := fmt.Sprint("waiting-", len(w.waiting))
		pod := builder.Pod(name)
		if class != "" {
			w.claims = append(w.claims, builder.Claim(name, builder.Request("gpu", class)).Obj())
			pod.Spec.ResourceClaims = builder.Uses(name)
		}
		w.waiting = append(w.waiting, w.member(pod))
	}
	return w
}

// taken adds claims of other pods that hold devices.
func (w *world) taken(node string, devices ...string) *world {
	for _, device := range devices {
		name := "of-others-" + node + "-" + device
		w.claims = append(w.claims, builder.Claim(name, builder.Request("gpu", "gpu")).Allocated(node, device))
	}
	return w
}

func (w *world) member(pod *v1.Pod) *v1.Pod {
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &w.group.Name}
	return pod
}

// begin creates the plugin. Nothing may be added afterwards.
func (w *world) begin() *world {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(cancel)
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	devices, err := cluster.New(factory, client, allocator.Supported, false, new(lease.Lease))
	require.NoError(w.t, err)
	devices.Memory.Bound(1 << 20)
	for _, slice := range w.slices {
		require.NoError(w.t, factory.Resource().V1().ResourceSlices().Informer().GetStore().Add(slice.Obj()))
		devices.RefreshSlice(slice.Obj().Name)
	}
	for _, class := range []*resourceapi.DeviceClass{builder.Class("gpu", builder.OfDriver(builder.Driver)), builder.Class("nic", builder.OfDriver("nic.example.com"))} {
		require.NoError(w.t, factory.Resource().V1().DeviceClasses().Informer().GetStore().Add(class))
	}
	for _, claim := range w.claims {
		require.NoError(w.t, factory.Resource().V1().ResourceClaims().Informer().GetStore().Add(claim))
		devices.RefreshClaim(claim.Namespace + "/" + claim.Name)
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	w.snapshot = schedulercache.NewTestSnapshotWithPodGroups(w.running, w.nodes, []*schedulingapi.PodGroup{w.group})
	handle, err := frameworkruntime.NewFramework(ctx, nil, &config.KubeSchedulerProfile{SchedulerName: "test"},
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSharedDRAManager(dynamicresources.NewDRAManager(ctx, claims, nil, factory)),
		frameworkruntime.WithSnapshotSharedLister(w.snapshot))
	require.NoError(w.t, err)
	plugin, err := New(ctx, nil, handle)
	require.NoError(w.t, err)
	w.pl = plugin.(*Plugin)
	go factory.Core().V1().Pods().Informer().Run(ctx.Done())
	require.Nil(w.t, quartermaster.StateOf(factory), "no profile has Quartermaster")
	w.pl.state = func() *cluster.State { return devices }
	return w
}

// groupInfo implements fwk.PodGroupInfo for the group.
func (w *world) groupInfo() *framework.PodGroupInfo {
	return &framework.PodGroupInfo{
		Namespace: w.group.Namespace, Name: w.group.Name, Type: fwk.PodGroupKeyType, PodGroup: w.group, UnscheduledPods: w.waiting,
	}
}

// generate returns the result of GeneratePlacements, and keeps it.
func (w *world) generate() (map[string][]string, *fwk.Status) {
	w.t.Helper()
	if w.pl == nil {
		w.begin()
	}
	all, err := w.snapshot.NodeInfos().List()
	require.NoError(w.t, err)
	// The snapshot has them in no order.
	slices.SortFunc(all, func(a, b fwk.NodeInfo) int { return cmp.Compare(a.Node().Name, b.Node().Name) })
	w.state = framework.NewCycleState()
	result, status := w.pl.GeneratePlacements(w.t.Context(), w.state, w.groupInfo(), &fwk.Placement{Nodes: all})
	if !status.IsSuccess() {
		require.Nil(w.t, result)
		return nil, status
	}
	w.made = result.Placements
	return namesOf(w.t, result.Placements), nil
}

// namesOf returns the names of nodes by placement.
func namesOf(t *testing.T, placements []*fwk.Placement) map[string][]string {
	t.Helper()
	names := make(map[string][]string)
	for _, placement := range placements {
		require.NotContains(t, names, placement.Name)
		names[placement.Name] = []string{}
		for _, info := range placement.Nodes {
			names[placement.Name] = append(names[placement.Name], info.Node().Name)
		}
	}
	return names
}

// assignment is a pod with a proposed node.
type assignment struct {
	fwk.ProposedAssignment
	pod  *v1.Pod
	node string
}

func (a assignment) GetPod() *v1.Pod     { return a.pod }
func (a assignment) GetNodeName() string { return a.node }

// scores returns the scores of placements where pods get nodes.
func (w *world) scores(assigned map[string][]string) map[string]int64 {
	w.t.Helper()
	var list []fwk.PlacementScore
	for _, placement := range w.made {
		nodes, found := assigned[placement.Name]
		if !found {
			continue
		}
		state := framework.NewCycleState()
		state.SetPodGroupSchedulingCycle(w.state)
		assignments := &fwk.PodGroupAssignments{Placement: placement}
		for i, node := range nodes {
			assignments.ProposedAssignments = append(assignments.ProposedAssignments, assignment{pod: w.waiting[i], node: node})
		}
		score, status := w.pl.ScorePlacement(w.t.Context(), state, w.groupInfo(), assignments)
		require.True(w.t, status.IsSuccess(), status.Message())
		list = append(list, fwk.PlacementScore{Placement: placement, Score: score})
	}
	require.Len(w.t, list, len(assigned))
	status := w.pl.PlacementScoreExtensions().NormalizePlacementScore(w.t.Context(), w.state, w.groupInfo(), list)
	require.True(w.t, status.IsSuccess(), status.Message())
	result := make(map[string]int64)
	for _, s := range list {
		result[s.Placement.Name] = s.Score
	}
	return result
}
