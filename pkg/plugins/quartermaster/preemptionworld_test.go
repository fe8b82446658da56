package quartermaster

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// priority sets a pod's priority.
func priority(p int32) func(*v1.Pod) { return func(pod *v1.Pod) { pod.Spec.Priority = &p } }

// runsOn makes a pod run on a node.
func runsOn(node string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.NodeName, pod.Status.Phase = node, v1.PodRunning }
}

// held is a claim with devices of a pool, reserved for pods.
func held(claim *resourceapi.ResourceClaim, pool string, devices []string, pods ...string) *resourceapi.ResourceClaim {
	claim = with(claim, allocate(pool, devices...), reservedFor(pods...))
	for i := range claim.Status.Allocation.Devices.Results {
		claim.Status.Allocation.Devices.Results[i].Request = claim.Spec.Devices.Requests[0].Name
	}
	return claim
}

// withDefaultPreemption is a profile in which the plugin comes before DefaultPreemption. Assumed pods are on nodes in
// the eyes of the scheduler only.
func withDefaultPreemption(f *fixture, assumed ...*v1.Pod) framework.Framework {
	schedulermetrics.Register()
	var nodes []*v1.Node
	for _, info := range f.nodeInfos() {
		nodes = append(nodes, info.Node())
	}
	pods := assumed
	for _, obj := range f.indexerOf(&v1.Pod{}).List() {
		if pod := obj.(*v1.Pod); pod.Spec.NodeName != "" {
			pods = append(pods, pod)
		}
	}
	enabled := func(names ...string) config.PluginSet {
		var set config.PluginSet
		for _, name := range names {
			set.Enabled = append(set.Enabled, config.Plugin{Name: name})
		}
		return set
	}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	snapshot := internalcache.NewSnapshot(pods, nodes)
	registry := frameworkruntime.Registry{
		Name: New, queuesort.Name: queuesort.New, defaultbinder.Name: defaultbinder.New,
		defaultpreemption.Name: frameworkruntime.FactoryAdapter(features, defaultpreemption.New),
		nodeaffinity.Name:      frameworkruntime.FactoryAdapter(features, nodeaffinity.New),
	}
	made, err := frameworkruntime.NewFramework(f.ctx, registry,
		&config.KubeSchedulerProfile{SchedulerName: "preempting", Plugins: &config.Plugins{
			QueueSort: enabled(queuesort.Name), Bind: enabled(defaultbinder.Name),
			PreFilter: enabled(nodeaffinity.Name, Name), Filter: enabled(nodeaffinity.Name, Name), PostFilter: enabled(Name, defaultpreemption.Name),
		}, PluginConfig: []config.PluginConfig{
			{Name: defaultpreemption.Name, Args: &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100, MinCandidateNodesAbsolute: 100}},
			{Name: nodeaffinity.Name, Args: &config.NodeAffinityArgs{}},
		}},
		frameworkruntime.WithClientSet(f.client),
		frameworkruntime.WithInformerFactory(f.factory),
		frameworkruntime.WithSharedDRAManager(f.pl.handle.SharedDRAManager()),
		frameworkruntime.WithEventRecorder(f.recorder),
		frameworkruntime.WithPodActivator(&f.activator),
		frameworkruntime.WithPodNominator(nobodyNominated{}),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithMutableSnapshotLister(snapshot),
	)
	require.NoError(f.t, err)
	return made
}

// preempted is the result of an attempt in which preemption runs.
type preempted struct {
	// node is the one that the pod is nominated for, "" if none.
	node string
	// victims are the names of pods that were deleted, sorted.
	victims []string
	// codes are those of Filter by node, and reasons the texts.
	codes   map[string]fwk.Code
	reasons map[string]string
	status  *fwk.Status
}

// preempt tries a pod on a cluster, and returns the result.
func preempt(t *testing.T, f *fixture, pod *v1.Pod) preempted {
	t.Helper()
	return preemptIn(t, f, withDefaultPreemption(f), pod)
}

// preemptIn is preempt in a profile.
func preemptIn(t *testing.T, f *fixture, profile framework.Framework, pod *v1.Pod) preempted {
	t.Helper()
	return preemptAfter(t, f, profile, pod, func() {})
}

// preemptAfter is preemptIn with something that happens between Filter and PostFilter.
func preemptAfter(t *testing.T, f *fixture, profile framework.Framework, pod *v1.Pod, happens func()) preempted {
	t.Helper()
	f.settle()
	before := f.podNames()
	state := framework.NewCycleState()
	result, status, _ := profile.RunPreFilterPlugins(f.ctx, state, pod)
	require.True(t, status.IsSuccess(), "%v", status)
	require.True(t, result.AllNodes(), "%v", result)
	statuses := framework.NewDefaultNodeToStatus()
	p := preempted{codes: make(map[string]fwk.Code), reasons: make(map[string]string)}
	infos, err := profile.SnapshotSharedLister().NodeInfos().List()
	require.NoError(t, err)
	for _, info := range infos {
		status := profile.RunFilterPluginsWithNominatedPods(f.ctx, state, pod, info)
		require.False(t, status.IsSuccess(), "node %s has room", info.Node().Name)
		statuses.Set(info.Node().Name, status)
		p.codes[info.Node().Name], p.reasons[info.Node().Name] = status.Code(), status.Message()
	}
	happens()
	nominated, status := profile.RunPostFilterPlugins(f.ctx, state, pod, statuses)
	p.status = status
	if nominated != nil && nominated.NominatingInfo != nil {
		p.node = nominated.NominatingInfo.NominatedNodeName
	}
	f.settleEvictions()
	after := f.podNames()
	for _, name := range before {
		if !slices.Contains(after, name) {
			p.victims = append(p.victims, name)
		}
	}
	return p
}

// podNames returns the names of the pods that the API server has, sorted.
func (f *fixture) podNames() []string {
	var names []string
	for _, obj := range f.indexerOf(&v1.Pod{}).List() {
		names = append(names, obj.(*v1.Pod).Name)
	}
	slices.Sort(names)
	return names
}

// low is a pod of priority 0 that runs on a node, and high one of priority 10 that has none.
func low(name, node string, edits ...func(*v1.Pod)) *v1.Pod {
	return newPod(name, append([]func(*v1.Pod){priority(0), runsOn(node)}, edits...)...)
}

func high(name string, edits ...func(*v1.Pod)) *v1.Pod {
	return newPod(name, append([]func(*v1.Pod){priority(10)}, edits...)...)
}
