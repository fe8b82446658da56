package quartermaster

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// evictor stands for preemption: a PostFilter plugin that would evict pods whenever it is called.
type evictor struct{ asked []string }

func (e *evictor) Name() string { return "Evictor" }

func (e *evictor) PostFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	e.asked = append(e.asked, pod.Name)
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// nobodyNominated is the part of a queue that Filter plugins need.
type nobodyNominated struct{ fwk.PodNominator }

func (nobodyNominated) NominatedPodsForNode(string) []fwk.PodInfo { return nil }

// profile is the plugin in a profile of upstream's framework, before an evictor unless that
// is to be first.
type profile struct {
	framework framework.Framework
	evictor   evictor
}

func newFullProfile(f *fixture, postFilters ...string) *profile {
	return newProfileWith(f, nil, postFilters...)
}

// newProfileWith is newFullProfile with arguments of the plugin.
func newProfileWith(f *fixture, args runtime.Object, postFilters ...string) *profile {
	schedulermetrics.Register()
	var nodes []*v1.Node
	for _, info := range f.nodeInfos() {
		nodes = append(nodes, info.Node())
	}
	p := &profile{}
	registry := frameworkruntime.Registry{
		Name: func(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			return New(ctx, args, handle)
		},
		queuesort.Name: queuesort.New, defaultbinder.Name: defaultbinder.New,
		"Evictor": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &p.evictor, nil },
	}
	enabled := func(names ...string) config.PluginSet {
		var set config.PluginSet
		for _, name := range names {
			set.Enabled = append(set.Enabled, config.Plugin{Name: name})
		}
		return set
	}
	var err error
	p.framework, err = frameworkruntime.NewFramework(f.ctx, registry,
		&config.KubeSchedulerProfile{SchedulerName: "full", Plugins: &config.Plugins{
			QueueSort: enabled(queuesort.Name), Bind: enabled(defaultbinder.Name),
			PreFilter: enabled(Name), Filter: enabled(Name), PostFilter: enabled(postFilters...),
		}},
		frameworkruntime.WithClientSet(f.client),
		frameworkruntime.WithInformerFactory(f.factory),
		frameworkruntime.WithSharedDRAManager(f.pl.handle.SharedDRAManager()),
		frameworkruntime.WithEventRecorder(f.recorder),
		frameworkruntime.WithPodActivator(&f.activator),
		frameworkruntime.WithPodNominator(nobodyNominated{}),
		frameworkruntime.WithSnapshotSharedLister(internalcache.NewSnapshot(f.running, nodes)),
	)
	require.NoError(f.t, err)
	return p
}

// preFilter begins an attempt and returns the nodes that it names, nil for all of them.
func (p *profile) preFilter(f *fixture, pod *v1.Pod) (fwk.CycleState, []string) {
	state := framework.NewCycleState()
	result, status, _ := p.framework.RunPreFilterPlugins(f.ctx, state, pod)
	require.True(f.t, status.IsSuccess(), "%v", status)
	if result.AllNodes() {
		return state, nil
	}
	return state, result.NodeNames.UnsortedList()
}

// reject runs Filter on a node, has another plugin reject it if that does not, and runs
// PostFilter.
func (p *profile) reject(f *fixture, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	status := fwk.NewStatus(fwk.Unschedulable, "no room")
	for _, info := range f.nodeInfos() {
		if info.Node().Name != node {
			continue
		}
		if ours := p.framework.RunFilterPlugins(f.ctx, state, pod, info); !ours.IsSuccess() {
			status = ours
		}
	}
	statuses := framework.NewDefaultNodeToStatus()
	statuses.Set(node, status)
	_, status = p.framework.RunPostFilterPlugins(f.ctx, state, pod, statuses)
	return status
}

// fullNodes returns nodes with one GPU each. Claim c-<node> holds the GPU of each node except the first.
func fullNodes(n int) []runtime.Object {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	objects := gpuNodes(1, names...)
	for _, name := range names[1:] {
		objects = append(objects, gpus("c-"+name, 1).Allocated(name, "gpu-0"))
	}
	return plus(objects, gpus("mine", 1).Obj(), builder.Claim("nothing").Obj())
}

// TestNoNodeIsNamedWithinAPlacement: the nodes with devices may be outside of the nodes to which the pod's group is
// limited.
func TestNoNodeIsNamedWithinAPlacement(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("mine"))
	inCluster(t, plus(fullNodes(8), pod), func(t *testing.T, f *fixture) {
		p := newFullProfile(f, Name)
		p.preFilter(f, pod)
		state, named := p.preFilter(f, pod)
		require.Equal(t, []string{"n0"}, named)
		c, err := cycleOf(state)
		require.NoError(t, err)
		f.pl.chooser = nodes.New(p.framework, Name) // The fixture's plugin is in no profile.
		require.NotNil(t, f.pl.narrow(f.ctx, c, pod, 8))
		c.place.SomeNodes = true
		require.Nil(t, f.pl.narrow(f.ctx, c, pod, 8))
	})
}

// TestDevicesBecameFreeMeanwhile: a pod for which a node has devices that PreFilter has not returned is tried again, on
// all nodes, and no later plugin evicts pods for it.
func TestDevicesBecameFreeMeanwhile(t *testing.T) {
	t.Parallel()
	pod := newPod("p", uses("mine"))
	inCluster(t, plus(fullNodes(8), pod), func(t *testing.T, f *fixture) {
		p := newFullProfile(f, Name, "Evictor")
		p.preFilter(f, pod)
		state, named := p.preFilter(f, pod)
		require.Equal(t, []string{"n0"}, named)

		f.changeClaim("c-n3", deallocate)
		f.settle()
		before := len(f.activator.names())
		status := p.reject(f, state, pod, "n0")
		require.True(t, status.IsSuccess(), "%v", status)
		require.Contains(t, status.Message(), "devices became free meanwhile")
		require.Empty(t, p.evictor.asked)
		require.Greater(t, len(f.activator.names()), before, "it is tried again")

		_, named = p.preFilter(f, pod)
		require.Nil(t, named, "the next attempt looks at all nodes")
		_, named = p.preFilter(f, pod)
		require.ElementsMatch(t, []string{"n0", "n3"}, named, "and the one after it at those that have devices")
	})
}

// TestOthersGetTheirTurn: if no node fits, preemption runs.
func TestOthersGetTheirTurn(t *testing.T) {
	t.Parallel()
	inCluster(t, fullNodes(8), func(t *testing.T, f *fixture) {
		p := newFullProfile(f, Name, "Evictor")
		pod := newPod("p", uses("mine"))
		p.preFilter(f, pod)
		state, named := p.preFilter(f, pod)
		require.Equal(t, []string{"n0"}, named)
		require.Equal(t, fwk.Unschedulable, p.reject(f, state, pod, "n0").Code())
		require.Equal(t, []string{"p"}, p.evictor.asked)
	})
}

// TestDeallocationEndsTheAttempt: after the deallocation the reasons are outdated, and no pods are evicted.
func TestDeallocationEndsTheAttempt(t *testing.T) {
	t.Parallel()
	elsewhere := with(gpus("mine", 1).Allocated("gone", "gpu-0"), onNode("gone"))
	inCluster(t, plus(gpuNodes(1, "n0"), elsewhere), func(t *testing.T, f *fixture) {
		p := newFullProfile(f, Name, "Evictor")
		pod := newPod("p", uses("mine"))
		state, _ := p.preFilter(f, pod)
		require.True(t, p.reject(f, state, pod, "n0").IsSuccess())
		require.Empty(t, p.evictor.asked)
		require.Empty(t, deviceNames(f.claim("mine")))
	})
}

// TestNotNarrowed are pods and profiles for which PreFilter names no nodes.
func TestNotNarrowed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		uses        []string
		postFilters []string
		narrowed    bool
	}{
		"devices":                            {uses: []string{"mine"}, postFilters: []string{Name, "Evictor"}, narrowed: true},
		"another PostFilter plugin is first": {uses: []string{"mine"}, postFilters: []string{"Evictor", Name}},
		"a claim without requests":           {uses: []string{"nothing"}, postFilters: []string{Name}},
		"one without and one with requests":  {uses: []string{"nothing", "mine"}, postFilters: []string{Name}, narrowed: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, fullNodes(8), func(t *testing.T, f *fixture) {
				p := newFullProfile(f, test.postFilters...)
				pod := newPod("p")
				for _, claim := range test.uses {
					uses(claim)(pod)
				}
				for range 3 {
					p.preFilter(f, pod)
				}
				_, named := p.preFilter(f, pod)
				require.Equal(t, test.narrowed, named != nil, "%v", named)
			})
		})
	}
}
