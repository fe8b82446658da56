package filters

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/quartermaster-dra/quartermaster/internal/gang/search"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// fakeFramework takes a number of pods on each node, and gives the configured answers for pods by name.
type fakeFramework struct {
	// apart counts the cycle states that are set apart.
	apart     int
	room      int
	rejects   map[string]*fwk.Status
	names     map[string]sets.Set[string]
	broken    map[string]bool
	nominated map[string][]fwk.PodInfo
	// told is the number of AddPod calls, less RemovePod calls, by class.
	told map[string]int
}

func (f *fakeFramework) RunPreFilterPlugins(_ context.Context, state fwk.CycleState, pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	if IsApart(state) {
		f.apart++
	}
	state.SetSkipFilterPlugins(sets.New(names.InterPodAffinity))
	return &fwk.PreFilterResult{NodeNames: f.names[pod.Name]}, f.rejects[pod.Name], sets.New("Naming")
}

func (f *fakeFramework) RunFilterPlugins(_ context.Context, _ fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if len(info.GetPods()) >= f.room {
		return fwk.NewStatus(fwk.Unschedulable, "Too many pods")
	}
	return nil
}

func (f *fakeFramework) RunPreFilterExtensionAddPod(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	if f.broken[pod.Name] {
		return fwk.AsStatus(fmt.Errorf("broken"))
	}
	f.told[pod.Name]++
	return nil
}

func (f *fakeFramework) RunPreFilterExtensionRemovePod(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	f.told[pod.Name]--
	return nil
}

func (f *fakeFramework) NominatedPodsForNode(name string) []fwk.PodInfo { return f.nominated[name] }

func podNamed(name string, edits ...func(*v1.Pod)) *v1.Pod {
	pod := builder.Pod(name, edits...)
	pod.UID = types.UID(name)
	return pod
}

// newOthers has nodes n0 and n1, and a class for each pod.
func newOthers(t *testing.T, f *fakeFramework, pods ...*v1.Pod) *Others {
	t.Helper()
	f.told = make(map[string]int)
	var nodes []fwk.NodeInfo
	for i := range 2 {
		info := framework.NewNodeInfo()
		info.SetNode(builder.Node(fmt.Sprint("n", i), "rack", "a"))
		nodes = append(nodes, info)
	}
	f.apart = 0
	o, err := New(t.Context(), f, nodes, pods)
	require.NoError(t, err)
	require.Equal(t, len(pods), f.apart)
	return o
}

// TestAddAndRemove: pods added before count, and plugins forget removed pods as well.
func TestAddAndRemove(t *testing.T) {
	t.Parallel()
	f := &fakeFramework{room: 2}
	a, b := podNamed("a"), podNamed("b")
	o := newOthers(t, f, a, b)
	require.Equal(t, search.Yes, o.Add(0, 0, a))
	require.Equal(t, search.Yes, o.Add(1, 0, b))
	require.Equal(t, map[string]int{"a": 2, "b": 2}, f.told)
	require.Equal(t, search.No, o.Add(0, 0, a))
	require.Equal(t, search.Yes, o.Add(0, 1, a))
	require.Equal(t, map[string]int{"Too many pods": 1}, o.Refusals(0))
	require.Empty(t, o.Refusals(1))
	o.Remove()
	o.Remove()
	require.Equal(t, search.Yes, o.Add(0, 0, a))
	o.Remove()
	o.Remove()
	require.Equal(t, map[string]int{"a": 0, "b": 0}, f.told)
	require.Empty(t, o.changed)
	require.Empty(t, o.nodes[0].GetPods(), "the snapshot stays as it is")
	o.Reset()
	require.Empty(t, o.Refusals(0))
}

// TestPreFilter: the results of PreFilter plugins apply to all nodes.
func TestPreFilter(t *testing.T) {
	t.Parallel()
	f := &fakeFramework{
		room: 9, rejects: map[string]*fwk.Status{"a": fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no such volume")},
		names: map[string]sets.Set[string]{"b": sets.New("n1")},
	}
	a, b := podNamed("a"), podNamed("b")
	o := newOthers(t, f, a, b)
	require.Equal(t, "no such volume", o.Rejected(0))
	require.Equal(t, search.No, o.Add(0, 0, a))
	require.Empty(t, o.Rejected(1))
	named, why := o.Named(1)
	require.Equal(t, sets.New("n1"), named)
	require.Equal(t, search.No, o.Add(1, 0, b))
	require.Equal(t, map[string]int{why: 1}, o.Refusals(1))
	require.Equal(t, search.Yes, o.Add(1, 1, b))
	require.Equal(t, map[string]int{"b": 1}, f.told, "plugins have no state for pods that they reject")
	o.Remove()
}

// TestUnknown: an error of a plugin is not "no", and the pod leaves no trace.
func TestUnknown(t *testing.T) {
	t.Parallel()
	f := &fakeFramework{room: 9, broken: map[string]bool{"b": true}}
	a, b := podNamed("a"), podNamed("b")
	o := newOthers(t, f, a, b)
	require.Equal(t, search.Unknown, o.Add(0, 0, a))
	require.Equal(t, map[string]int{"a": 0}, f.told)
	require.Empty(t, o.changed)

	_, err := New(t.Context(), &fakeFramework{rejects: map[string]*fwk.Status{"a": fwk.AsStatus(fmt.Errorf("no connection"))}}, nil, []*v1.Pod{a})
	require.ErrorContains(t, err, "no connection")
}

// TestNominated: nominated pods take room, except those of the gang and those of lower priority.
func TestNominated(t *testing.T) {
	t.Parallel()
	low := int32(-1)
	a := podNamed("a")
	other, own, lower := podNamed("other"), podNamed("own"), podNamed("lower", func(p *v1.Pod) { p.Spec.Priority = &low })
	for name, test := range map[string]struct {
		nominated []*v1.Pod
		want      search.Answer
	}{"other": {[]*v1.Pod{other}, search.No}, "own and lower": {[]*v1.Pod{a, own, lower}, search.Yes}, "none": {nil, search.Yes}} {
		f := &fakeFramework{room: 1, nominated: make(map[string][]fwk.PodInfo)}
		for _, pod := range test.nominated {
			info, err := framework.NewPodInfo(pod)
			require.NoError(t, err)
			f.nominated["n0"] = append(f.nominated["n0"], info)
		}
		o := newOthers(t, f, a)
		o.run = Without(f, []*v1.Pod{a, own})
		require.Equal(t, test.want, o.Add(0, 0, a), name)
		require.Equal(t, search.Yes, o.Add(0, 1, a), name)
	}
}

// TestRepels: anti-affinity of placed pods counts for classes that InterPodAffinity skips.
func TestRepels(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		key       string
		namespace *metav1.LabelSelector
		label     string
		want      search.Answer
	}{
		"same rack":             {key: "rack", label: "x", want: search.No},
		"no such label":         {key: "zone", label: "x", want: search.Yes},
		"another app":           {key: "rack", label: "y", want: search.Yes},
		"all namespaces":        {key: "rack", label: "x", namespace: &metav1.LabelSelector{}, want: search.No},
		"namespaces by label":   {key: "rack", label: "x", namespace: metav1.SetAsLabelSelector(map[string]string{"team": "a"}), want: search.Unknown},
		"namespaces, other app": {key: "rack", label: "y", namespace: metav1.SetAsLabelSelector(map[string]string{"team": "a"}), want: search.Yes},
	} {
		a := podNamed("a", func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: test.key, NamespaceSelector: test.namespace, LabelSelector: metav1.SetAsLabelSelector(map[string]string{"app": "x"}),
			}}}}
		})
		b := podNamed("b", func(p *v1.Pod) { p.Labels = map[string]string{"app": test.label} })
		o := newOthers(t, &fakeFramework{room: 9}, a, b)
		require.Equal(t, search.Yes, o.Add(0, 0, a), name)
		require.Equal(t, test.want, o.Add(1, 1, b), name)
	}
}

// TestRoom: pods of a class are counted on a node by themselves, and leave no trace.
func TestRoom(t *testing.T) {
	t.Parallel()
	for room := range 12 {
		f := &fakeFramework{room: room}
		o := newOthers(t, f, podNamed("a"))
		for guess := range 12 {
			require.Equal(t, min(room, 9), o.Room(0, 0, guess, 9), "room %d, guess %d", room, guess)
		}
		require.Zero(t, f.told["a"])
	}
}

type known struct{}

func (k known) Clone() fwk.StateData { return k }

// TestSpread: the counts of domains stay correct for any sequence of adds and removes.
func TestSpread(t *testing.T) {
	t.Parallel()
	pod := podNamed("a", func(p *v1.Pod) {
		p.Labels = map[string]string{"app": "x"}
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			TopologyKey: "zone", MaxSkew: 1, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: metav1.SetAsLabelSelector(p.Labels),
		}}
	})
	var nodes []fwk.NodeInfo
	for i := range 4 {
		info := framework.NewNodeInfo()
		info.SetNode(builder.Node(fmt.Sprint("n", i), "zone", fmt.Sprint(i)))
		nodes = append(nodes, info)
	}
	state := framework.NewCycleState()
	s, err := newSpread(pod, state, nodes)
	require.NoError(t, err)
	require.Nil(t, s, "the profile is without PodTopologySpread")
	state.Write(spreadState, known{})
	s, err = newSpread(pod, state, nodes)
	require.NoError(t, err)
	allowed := func() (at []int) {
		for i, info := range nodes {
			if s.allows(info.Node()) {
				at = append(at, i)
			}
		}
		return at
	}
	require.Equal(t, []int{0, 1, 2, 3}, allowed())
	for i := range 3 {
		s.add(pod, nodes[i].Node(), 1)
	}
	require.Equal(t, []int{3}, allowed())
	s.add(pod, nodes[3].Node(), 1)
	require.Equal(t, []int{0, 1, 2, 3}, allowed())
	s.add(pod, nodes[0].Node(), 1)
	require.Equal(t, []int{1, 2, 3}, allowed())
	s.add(podNamed("b"), nodes[1].Node(), 1)
	require.Equal(t, []int{1, 2, 3}, allowed(), "pods that do not match do not count")
	s.add(pod, nodes[0].Node(), -1)
	s.add(pod, nodes[1].Node(), -1)
	require.Equal(t, []int{1}, allowed())
	require.False(t, s.allows(builder.Node("n9")), "a node without the label")
	five := int32(5)
	s.constraints[0].MinDomains = &five
	s.add(pod, nodes[1].Node(), 1)
	require.Empty(t, allowed(), "with too few domains the lowest number is 0")
}
