package quartermaster

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// gang is a PodGroup in a scheduler that schedules it as a whole. Its methods are the
// steps in the order in which the scheduler takes them.
type gang struct {
	*fixture
	group    *schedulingapi.PodGroup
	state    *framework.CycleState
	attempts []*attempt
	nodes    []string // where each attempt was reserved
	trying   []*v1.Pod
	// postFilter is the expected code of PodGroupPostFilter, Unschedulable if it is not set.
	postFilter fwk.Code
	// beforeReserve happens before a pod is reserved for the first time.
	beforeReserve func(*v1.Pod)
	// late is set if the scheduler has not seen bindings.
	late bool
}

// newPodGroup returns a group with claims that it refers to by name.
func newPodGroup(claims ...string) *schedulingapi.PodGroup {
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "gang", Namespace: builder.Namespace, UID: "uid-gang"}}
	for _, claim := range claims {
		group.Spec.ResourceClaims = append(group.Spec.ResourceClaims, schedulingapi.PodGroupResourceClaim{Name: "by-name-" + claim, ResourceClaimName: &claim})
	}
	return group
}

// member makes a pod one of the group.
func member(pod *v1.Pod) {
	name := "gang"
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
}

// onlyOn lets another plugin decide the pod's node.
func onlyOn(node string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": node} }
}

// inGang is inCluster with the gates for groups and one group.
func inGang(t *testing.T, group *schedulingapi.PodGroup, objects []runtime.Object, test func(t *testing.T, g *gang)) {
	t.Helper()
	inCluster(t, objects, func(t *testing.T, f *fixture) { test(t, f.gangOf(group)) })
}

// gangOf creates the group, and turns the gates on.
func (f *fixture) gangOf(group *schedulingapi.PodGroup) *gang {
	f.create(group)
	return f.among(group)
}

// among turns the gates on for a group.
func (f *fixture) among(group *schedulingapi.PodGroup) *gang {
	f.pl.features.EnableGenericWorkload, f.pl.features.EnableDRAWorkloadResourceClaims, f.pl.claims.OfGroups = true, true, true
	f.pl.groups = workload.NewClaims()
	f.pl.commits.Groups = f.pl.groups
	g := &gang{fixture: f, group: group}
	f.pl.handle = groupHandle{Handle: f.pl.handle, gang: g}
	return g
}

// groupHandle adds what the scheduler knows about groups.
type groupHandle struct {
	fwk.Handle
	gang *gang
}

// RunPreFilterPlugins and RunFilterPluginsWithNominatedPods are those of a plugin for node selectors, and no other.
func (h groupHandle) RunPreFilterPlugins(context.Context, fwk.CycleState, *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	return nil, nil, nil
}

func (h groupHandle) RunFilterPluginsWithNominatedPods(_ context.Context, _ fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if only := pod.Spec.NodeSelector["kubernetes.io/hostname"]; only != "" && only != info.Node().Name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't match Pod's node affinity/selector")
	}
	return nil
}

// NominatedPodsForNode implements fwk.PodNominator.
func (h groupHandle) NominatedPodsForNode(string) []fwk.PodInfo { return nil }

func (h groupHandle) SnapshotSharedLister() fwk.SharedLister { return groupLister{gang: h.gang} }
func (h groupHandle) PodGroupManager() fwk.PodGroupManager   { return groupManager{gang: h.gang} }

type groupLister struct {
	fwk.SharedLister
	gang *gang
}

func (l groupLister) PodGroups() fwk.PodGroupLister { return l }

func (l groupLister) Get(namespace, name string) (*schedulingapi.PodGroup, error) {
	if namespace != l.gang.group.Namespace || name != l.gang.group.Name {
		return nil, apierrors.NewNotFound(schedulingapi.Resource("podgroups"), name)
	}
	return l.gang.group, nil
}

type groupManager struct {
	fwk.PodGroupManager
	gang *gang
}

func (m groupManager) PodGroupStates() fwk.PodGroupStateLister { return m }
func (m groupManager) Get(string, string) (fwk.PodGroupState, error) {
	return groupState{gang: m.gang}, nil
}

type groupState struct {
	fwk.PodGroupState
	gang *gang
}

// UnscheduledPods returns the pods that are tried.
func (s groupState) UnscheduledPods() map[string]*v1.Pod {
	pods := make(map[string]*v1.Pod)
	for _, pod := range s.gang.trying {
		pods[pod.Namespace+"/"+pod.Name] = pod
	}
	return pods
}

// ScheduledPodsCount counts the pods that are bound or reserved, as far as the scheduler knows.
func (s groupState) ScheduledPodsCount() int {
	if s.gang.late {
		return 0
	}
	pods, err := s.gang.client.CoreV1().Pods("").List(s.gang.ctx, metav1.ListOptions{})
	require.NoError(s.gang.t, err)
	return len(slices.DeleteFunc(pods.Items, func(pod v1.Pod) bool { return pod.Spec.NodeName == "" }))
}

// groupInfo is the input of PodGroupPostFilter.
type groupInfo struct {
	fwk.PodGroupInfo
	gang *gang
	pods []*v1.Pod
}

func (i groupInfo) GetType() fwk.EntityKeyType           { return fwk.PodGroupKeyType }
func (i groupInfo) GetName() string                      { return i.gang.group.Name }
func (i groupInfo) GetNamespace() string                 { return i.gang.group.Namespace }
func (i groupInfo) GetPodGroup() *schedulingapi.PodGroup { return i.gang.group }
func (i groupInfo) GetUnscheduledPods() []*v1.Pod        { return i.pods }

// try looks for nodes for all pods, and rolls back the reservations. It returns the reasons why pods do not fit, by
// name; then PodGroupPostFilter has run, and its message is under "".
func (g *gang) try(pods ...*v1.Pod) map[string]string {
	g.state, g.attempts, g.nodes, g.trying = framework.NewCycleState(), nil, nil, pods
	before, failures := g.pl.state.Ledger.InFlightCount(), make(map[string]string)
	for _, pod := range pods {
		if why := g.tryPod(pod); why != "" {
			failures[pod.Name] = why
		}
	}
	for i := len(g.attempts) - 1; i >= 0; i-- {
		g.attempts[i].unreserve(g.nodes[i])
	}
	require.Equal(g.t, before, g.pl.state.Ledger.InFlightCount(), "rolled back as a whole")
	if len(failures) > 0 {
		_, status := g.pl.PodGroupPostFilter(g.ctx, g.state, groupInfo{gang: g, pods: pods}, nil)
		want := fwk.Unschedulable
		if status.Message() != "" {
			want = fwk.UnschedulableAndUnresolvable // No pods are evicted for a group that got claims released.
		}
		require.Equal(g.t, cmp.Or(g.postFilter, want), status.Code(), "%v", status)
		failures[""] = status.Message()
	}
	return failures
}

func (g *gang) tryPod(pod *v1.Pod) string {
	state := framework.NewCycleState()
	state.SetPodGroupSchedulingCycle(g.state)
	a := &attempt{f: g.fixture, pod: pod, state: state, reasons: make(map[string]string)}
	_, status := g.pl.PreFilter(g.ctx, state, pod, g.nodeInfos())
	if a.skipped = status.IsSkip(); !a.skipped && !status.IsSuccess() {
		return status.Message()
	}
	a.filter()
	if only := pod.Spec.NodeSelector["kubernetes.io/hostname"]; only != "" {
		a.feasible = slices.DeleteFunc(a.feasible, func(node string) bool { return node != only })
	}
	if len(a.feasible) == 0 {
		for _, node := range g.nodeInfos() {
			if why := a.reasons[node.Node().Name]; why != "" {
				return why
			}
		}
	}
	node := a.best()
	if g.beforeReserve != nil {
		g.beforeReserve(pod)
	}
	if status := a.reserve(node); !status.IsSuccess() {
		return status.Message()
	}
	g.attempts, g.nodes = append(g.attempts, a), append(g.nodes, node)
	return ""
}

// reserve is the second Reserve of one pod, before its goroutine starts.
func (g *gang) reserve(i int) *fwk.Status {
	g.attempts[i].state.(*framework.CycleState).SetPodGroupSchedulingCycle(nil)
	return g.attempts[i].reserve(g.nodes[i])
}

// preBind is PreBind of one pod.
func (g *gang) preBind(i int) *fwk.Status { return g.attempts[i].preBind(g.nodes[i]) }

// bind puts the pod on its node.
func (g *gang) bind(i int) {
	a := g.attempts[i]
	pod := g.pod(a.pod.Name)
	pod.Spec.NodeName = g.nodes[i]
	g.replace(pod)
	g.pl.PostBind(g.ctx, a.state, a.pod, g.nodes[i])
}

// schedule schedules a group that fits, with all its pods being bound at the same time.
func (g *gang) schedule(pods ...*v1.Pod) {
	require.Empty(g.t, g.try(pods...))
	var bound sync.WaitGroup
	for i := range pods {
		require.NoError(g.t, g.reserve(i).AsError())
		bound.Go(func() {
			if status := g.preBind(i); !status.IsSuccess() {
				g.t.Errorf("pod %s: %v", pods[i].Name, status)
				return
			}
			g.bind(i)
		})
	}
	bound.Wait()
	g.settle()
	require.Zero(g.t, g.pl.state.Ledger.InFlightCount())
	require.True(g.t, g.pl.groups.Empty())
}
