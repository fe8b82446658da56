package planning

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/domain"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// Edits of pods.

func onPort(port int32) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: port, ContainerPort: port, Protocol: v1.ProtocolTCP}}
	}
}

func labeled(key, value string) func(*v1.Pod) {
	return func(pod *v1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value) }
}

func termOf(key, app string) []v1.PodAffinityTerm {
	return []v1.PodAffinityTerm{{TopologyKey: key, LabelSelector: metav1.SetAsLabelSelector(map[string]string{"app": app})}}
}

// apart keeps the pod away from pods of an app, together has it beside one.
func apart(key, app string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: termOf(key, app)}}
	}
}

func together(key, app string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: termOf(key, app)}}
	}
}

func spread(key, app string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			TopologyKey: key, MaxSkew: 1, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: metav1.SetAsLabelSelector(map[string]string{"app": app}),
		}}
	}
}

func requiring(operator v1.NodeSelectorOperator, values ...string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		terms := []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: operator, Values: values}}}}
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
	}
}

func tainted(n *v1.Node) {
	n.Spec.Taints = []v1.Taint{{Key: "reserved", Effect: v1.TaintEffectNoSchedule}}
}

func tolerating(pod *v1.Pod) {
	pod.Spec.Tolerations = []v1.Toleration{{Key: "reserved", Operator: v1.TolerationOpExists}}
}

func unschedulable(n *v1.Node) { n.Spec.Unschedulable = true }

func gone(pod *v1.Pod) {
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "gone"}}}}
}

func where(o *Outcome) map[string]int {
	pods := make(map[string]int)
	for _, assignment := range o.Plan.Assignments {
		pods[assignment.Node]++
	}
	return pods
}

const hostname = "kubernetes.io/hostname"

func TestPlan(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		nodes      []node
		pods, need int
		edits      []func(*v1.Pod)
		gpus       int64
		want       map[string]int
		why        string
	}{
		"fits":            {nodes: []node{{gpus: 2}, {gpus: 2}}, pods: 3, gpus: 1, want: map[string]int{"n0": 2, "n1": 1}},
		"devices missing": {nodes: []node{{gpus: 2}}, pods: 3, gpus: 1, why: "2 of 3 pods fit: 1 more device of class gpu; held by b"},
		"many missing":    {nodes: []node{{gpus: 3}, {}}, pods: 3, gpus: 2, why: "1 of 3 pods fit: 4 more devices of class gpu; held by b"},
		"CPU missing":     {nodes: []node{{gpus: 4, cpu: "2"}}, pods: 3, gpus: 1, why: "2 of 3 pods fit: 1 node: Insufficient cpu"},
		"one node each": {nodes: []node{{gpus: 4, cpu: "2"}, {gpus: 1}}, pods: 4, gpus: 1,
			why: "3 of 4 pods fit: 1 more device of class gpu; 1 node: Insufficient cpu; held by b"},
		"as many as fit": {nodes: []node{{gpus: 4, cpu: "3"}}, pods: 5, need: 2, gpus: 1, want: map[string]int{"n0": 3}},
		"no devices":     {nodes: []node{{cpu: "2"}, {cpu: "2"}}, pods: 4, want: map[string]int{"n0": 2, "n1": 2}},
		"ports":          {nodes: []node{{}, {}}, pods: 2, edits: []func(*v1.Pod){onPort(80)}, want: map[string]int{"n0": 1, "n1": 1}},
		"no port": {nodes: []node{{}, {}}, pods: 3, edits: []func(*v1.Pod){onPort(80)},
			why: "2 of 3 pods fit: 2 node(s) didn't have free ports for the requested pod ports"},
		"apart": {nodes: []node{{gpus: 2}, {gpus: 2}}, pods: 2, gpus: 1, edits: []func(*v1.Pod){labeled("app", "a"), apart(hostname, "a")},
			want: map[string]int{"n0": 1, "n1": 1}},
		"too few apart": {nodes: []node{{}, {}}, pods: 3, edits: []func(*v1.Pod){labeled("app", "a"), apart(hostname, "a")},
			why: "2 of 3 pods fit: 2 node(s) didn't match pod anti-affinity rules"},
		"racks apart": {nodes: []node{{rack: "a"}, {rack: "a"}, {rack: "b"}}, pods: 2, edits: []func(*v1.Pod){labeled("app", "a"), apart("rack", "a")},
			want: map[string]int{"n0": 1, "n2": 1}},
		"spread": {nodes: []node{{rack: "a"}, {rack: "a"}, {rack: "b"}}, pods: 4, edits: []func(*v1.Pod){labeled("app", "a"), spread("rack", "a")},
			want: map[string]int{"n0": 2, "n2": 2}},
		"no spread": {nodes: []node{{rack: "a"}, {rack: "b", cpu: "1"}}, pods: 4, edits: []func(*v1.Pod){labeled("app", "a"), spread("rack", "a")},
			why: "3 of 4 pods fit: 1 node: Insufficient cpu; 1 node(s) didn't match pod topology spread constraints"},
		"together": {nodes: []node{{rack: "a", cpu: "1"}, {rack: "b", cpu: "1"}, {rack: "b", cpu: "1"}}, pods: 2,
			edits: []func(*v1.Pod){labeled("app", "a"), together("rack", "a")}, want: map[string]int{"n1": 1, "n2": 1}},
		"together with nobody": {nodes: []node{{rack: "a"}}, pods: 1, edits: []func(*v1.Pod){together("rack", "a")},
			why: "0 of 1 pods fit: 1 node(s) didn't match pod affinity rules"},
		"tolerated": {nodes: []node{{edit: tainted}}, pods: 1, edits: []func(*v1.Pod){tolerating}, want: map[string]int{"n0": 1}},
		"tainted": {nodes: []node{{edit: tainted}, {edit: unschedulable}}, pods: 1,
			why: "0 of 1 pods fit: 1 node(s) had untolerated taint(s); 1 node(s) were unschedulable"},
		"node in": {nodes: []node{{}, {}}, pods: 2, edits: []func(*v1.Pod){requiring(v1.NodeSelectorOpIn, "n1")}, want: map[string]int{"n1": 2}},
		"node that is not there": {nodes: []node{{gpus: 1}, {gpus: 1}}, pods: 2, gpus: 1, edits: []func(*v1.Pod){requiring(v1.NodeSelectorOpIn, "n7")},
			why: "0 of 2 pods fit: 2 node(s) not among those that NodeAffinity named"},
		"other node": {nodes: []node{{}, {}}, pods: 2, edits: []func(*v1.Pod){requiring(v1.NodeSelectorOpNotIn, "n0")}, want: map[string]int{"n1": 2}},
		"volume that is not there": {nodes: []node{{}, {}}, pods: 2, edits: []func(*v1.Pod){gone},
			why: `0 of 2 pods fit: pod p0: persistentvolumeclaim "gone" not found`},
		"no node": {pods: 2, why: "0 of 2 pods fit: there is no node that they may be on"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.nodes...)
			w.gpus = func(*v1.Pod) int64 { return test.gpus }
			if test.need == 0 {
				test.need = test.pods
			}
			outcome, err := w.planner().Plan(t.Context(), gangOf(test.pods, test.need, domain.Wish{}, test.edits...))
			require.NoError(t, err)
			require.Equal(t, test.why, outcome.Reason(func([]string) string { return "held by b" }))
			if test.want != nil {
				require.Equal(t, test.want, where(outcome))
			}
		})
	}
}

func TestDomains(t *testing.T) {
	t.Parallel()
	rack, clique := domain.Key{Label: "rack"}, domain.Key{Attribute: builder.Driver + "/clique"}
	linked := func(names ...string) node { return node{cliques: names} }
	tests := map[string]struct {
		nodes      []node
		pods, need int
		wish       domain.Wish
		on         []string
		want       map[string]int
		why        string
	}{
		"one rack": {nodes: []node{{gpus: 2, rack: "a"}, {gpus: 4, rack: "b"}, {gpus: 1, rack: "b"}}, pods: 4,
			wish: domain.Wish{Key: rack, Required: true}, want: map[string]int{"n1": 4}},
		"the tighter rack": {nodes: []node{{gpus: 8, rack: "a"}, {gpus: 3, rack: "b"}}, pods: 2,
			wish: domain.Wish{Key: rack, Required: true}, want: map[string]int{"n1": 2}},
		"the rack with less CPU": {nodes: []node{{gpus: 8, rack: "a"}, {gpus: 8, cpu: "3", rack: "b"}}, pods: 2,
			wish: domain.Wish{Key: rack, Required: true}, want: map[string]int{"n1": 2}},
		"the rack where most fit": {nodes: []node{{gpus: 2, rack: "a"}, {gpus: 3, rack: "b"}}, pods: 5, need: 2,
			wish: domain.Wish{Key: rack, Required: true}, want: map[string]int{"n1": 3}},
		"no rack": {nodes: []node{{gpus: 2, rack: "a"}, {gpus: 3, rack: "b"}}, pods: 4,
			wish: domain.Wish{Key: rack, Required: true}, why: "3 of 4 pods fit into one domain (label=rack): 1 more device of class gpu; held by b"},
		"no racks at all": {nodes: []node{{gpus: 2}}, pods: 1, wish: domain.Wish{Key: rack, Required: true},
			why: "0 of 1 pods fit into one domain (label=rack): 1 node(s) in no such domain or not in that of pods of the group that have a node"},
		"where it runs": {nodes: []node{{gpus: 2, rack: "a"}, {gpus: 8, rack: "b"}, {gpus: 8, rack: "b"}}, pods: 2, on: []string{"n1"},
			wish: domain.Wish{Key: rack, Required: true}, want: map[string]int{"n1": 2}},
		"in two already": {nodes: []node{{gpus: 2, rack: "a"}, {gpus: 8, rack: "b"}}, pods: 2, on: []string{"n0", "n1"}, wish: domain.Wish{Key: rack, Required: true},
			why: "0 of 2 pods fit into one domain (label=rack): 2 node(s) in no such domain or not in that of pods of the group that have a node"},
		"few racks": {nodes: []node{{gpus: 1, rack: "a"}, {gpus: 2, rack: "b"}, {gpus: 3, rack: "c"}}, pods: 4,
			wish: domain.Wish{Key: rack}, want: map[string]int{"n0": 1, "n2": 3}},
		"the tighter rack, preferred": {nodes: []node{{gpus: 8, rack: "a"}, {gpus: 3, rack: "b"}, {gpus: 9}}, pods: 2,
			wish: domain.Wish{Key: rack}, want: map[string]int{"n1": 2}},
		"outside last": {nodes: []node{{gpus: 8}, {gpus: 1, rack: "a"}, {gpus: 1, rack: "b"}}, pods: 3,
			wish: domain.Wish{Key: rack}, want: map[string]int{"n0": 1, "n1": 1, "n2": 1}},
		"preferred where it runs": {nodes: []node{{gpus: 2, rack: "a"}, {gpus: 8, rack: "b"}}, pods: 2, on: []string{"n1"},
			wish: domain.Wish{Key: rack}, want: map[string]int{"n1": 2}},
		"one clique": {nodes: []node{linked("x", "y"), linked("y"), linked("y", "z")}, pods: 3,
			wish: domain.Wish{Key: clique, Required: true}, want: map[string]int{"n0": 1, "n1": 1, "n2": 1}},
		"the tighter clique": {nodes: []node{linked("x", "x", "x", "y"), linked("y")}, pods: 2,
			wish: domain.Wish{Key: clique, Required: true}, want: map[string]int{"n0": 1, "n1": 1}},
		"no clique": {nodes: []node{linked("x", "y"), linked("y")}, pods: 3, wish: domain.Wish{Key: clique, Required: true},
			why: "2 of 3 pods fit into one domain (attribute=" + builder.Driver + "/clique): 1 more device of class gpu; held by b"},
		"few cliques": {nodes: []node{linked("x", "y"), linked("y")}, pods: 3, wish: domain.Wish{Key: clique}, want: map[string]int{"n0": 2, "n1": 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.need == 0 {
				test.need = test.pods
			}
			g := gangOf(test.pods, test.need, test.wish)
			g.On = test.on
			outcome, err := newWorld(t, test.nodes...).planner().Plan(t.Context(), g)
			require.NoError(t, err)
			require.Equal(t, test.why, outcome.Reason(func([]string) string { return "held by b" }))
			if test.want != nil {
				require.Equal(t, test.want, where(outcome))
				require.Len(t, outcome.Plan.Allocations, len(outcome.Plan.Assignments))
			}
		})
	}
}

// TestManyDomains: a plan ends although there are more domains and kinds of pods than it can ask about. A gang that the first domains have room for
// fits, and a domain that is only preferred keeps it from no node.
func TestManyDomains(t *testing.T) {
	t.Parallel()
	for _, key := range []domain.Key{{Label: "rack"}, {Attribute: builder.Driver + "/clique"}} {
		for name, test := range map[string]struct {
			pods     int
			required bool
			fits     bool
		}{
			"too large":            {pods: 3, required: true},
			"too large, preferred": {pods: 3, fits: true},
			"fits":                 {pods: 1, required: true, fits: true},
		} {
			var nodes []node
			for i := range 40 {
				nodes = append(nodes, node{rack: fmt.Sprint("r", i), cliques: []string{fmt.Sprint("a", i), fmt.Sprint("b", i)}})
			}
			planner := newWorld(t, nodes...).planner()
			planner.Asks = 30
			g := gangOf(test.pods, test.pods, domain.Wish{Key: key, Required: test.required})
			for i, pod := range g.Pods {
				labeled("kind", fmt.Sprint(i))(pod)
			}
			outcome, err := planner.Plan(t.Context(), g)
			require.NoError(t, err)
			require.Equal(t, test.fits, outcome.Plan != nil, name)
			require.Equal(t, !test.fits, outcome.GaveUp, name)
		}
	}
}

// TestNoTwoAlike: of the pods of a gang in which no two are alike, those with equal claims are not asked about a node that has no devices left.
func TestNoTwoAlike(t *testing.T) {
	t.Parallel()
	const pods = 30
	planner := newWorld(t, slices.Repeat([]node{{gpus: 1}}, pods)...).planner()
	planner.Asks = 3 * pods
	g := gangOf(pods, pods, domain.Wish{})
	for i, pod := range g.Pods {
		labeled("kind", fmt.Sprint(i))(pod)
	}
	outcome, err := planner.Plan(t.Context(), g)
	require.NoError(t, err)
	require.NotNil(t, outcome.Plan)
}

// TestPodsDiffer: pods without devices go to nodes without devices, and other pods with anti-affinity keep them away.
func TestPodsDiffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, node{gpus: 1, cpu: "1"}, node{cpu: "1"}, node{cpu: "1"})
	w.gpus = func(pod *v1.Pod) int64 { return int64(boolToInt(pod.Name == "p0")) }
	g := gangOf(3, 3, domain.Wish{})
	apart(hostname, "b")(g.Pods[0])
	labeled("app", "b")(g.Pods[1])
	outcome, err := w.planner().Plan(t.Context(), g)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"n0": 1, "n1": 1, "n2": 1}, where(outcome))

	for _, info := range w.nodes {
		info.Status.Allocatable = builder.Resources("cpu", "8", "memory", "1Ti", "pods", "110")
	}
	w.nodes = w.nodes[:1]
	outcome, err = w.planner().Plan(t.Context(), g)
	require.NoError(t, err)
	require.Equal(t, "2 of 3 pods fit: 1 node(s) didn't satisfy the anti-affinity rules of pods of the group", outcome.Reason(func([]string) string { return "" }))
}

// TestSpreadOverMany: a full domain prevents a second pod in all others, however many there are.
func TestSpreadOverMany(t *testing.T) {
	t.Parallel()
	nodes := []node{{rack: "full", edit: tainted}}
	for i := range 12 {
		nodes = append(nodes, node{rack: fmt.Sprint("r", i)})
	}
	w := newWorld(t, nodes...)
	w.gpus = func(*v1.Pod) int64 { return 0 }
	outcome, err := w.planner().Plan(t.Context(), gangOf(13, 13, domain.Wish{}, labeled("app", "a"), spread("rack", "a")))
	require.NoError(t, err)
	require.Nil(t, outcome.Plan)
	require.Equal(t, 12, outcome.Fit)
}

// TestNominated: room for pods that are nominated is kept free, but not for those of the gang itself, which may have been
// planned elsewhere.
func TestNominated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, node{cpu: "2"}, node{cpu: "1"})
	g := gangOf(3, 3, domain.Wish{})
	w.gpus = func(*v1.Pod) int64 { return 0 }
	nominate := func(pod *v1.Pod) {
		info, err := framework.NewPodInfo(pod)
		require.NoError(t, err)
		w.nominated["n0"] = append(w.nominated["n0"], info)
	}
	nominate(g.Pods[1])
	nominate(g.Pods[2])
	outcome, err := w.planner().Plan(t.Context(), g)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"n0": 2, "n1": 1}, where(outcome))

	other := builder.Pod("other", builder.Container("c", "cpu", "1"))
	other.UID = "other"
	nominate(other)
	outcome, err = w.planner().Plan(t.Context(), g)
	require.NoError(t, err)
	require.Equal(t, "2 of 3 pods fit: 2 nodes: Insufficient cpu", outcome.Reason(nil))

	priority := int32(1)
	for _, pod := range g.Pods {
		pod.Spec.Priority = &priority
	}
	outcome, err = w.planner().Plan(t.Context(), g)
	require.NoError(t, err)
	require.NotNil(t, outcome.Plan, "whoever has a higher priority need not wait for it")
}

// TestReasonIsBounded: the reasons of plugins are cut and limited, and the text is always the same.
func TestReasonIsBounded(t *testing.T) {
	t.Parallel()
	o := &Outcome{Need: 9, Left: []Left{{Pods: 9, Refusals: make(map[string]int)}}}
	for i := range 26 {
		o.Left[0].Refusals[strings.Repeat(string(rune('a'+i)), 1000)] = 5
	}
	first := o.Reason(nil)
	require.Less(t, len(first), 1000)
	require.Contains(t, first, "5 nodes: aaa")
	require.Contains(t, first, "23 more like that")
	for range 20 {
		require.Equal(t, first, o.Reason(nil))
	}
}

var _ fwk.PodNominator = nominations{}

// TestUnfit: pods that no node can take are left out, and count as missing only if they are needed.
func TestUnfit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, node{gpus: 3})
	w.unfit = map[string]error{"p1": errors.New("its devices did not get ready")}
	p := w.planner()
	out, err := p.Plan(t.Context(), gangOf(3, 2, domain.Wish{}))
	require.NoError(t, err)
	require.NotNil(t, out.Plan)
	require.Equal(t, []string{"p0", "p2"}, []string{out.Plan.Assignments[0].Pod.Name, out.Plan.Assignments[1].Pod.Name})
	out, err = p.Plan(t.Context(), gangOf(3, 3, domain.Wish{}))
	require.NoError(t, err)
	require.Equal(t, "2 of 3 pods fit: pod p1: its devices did not get ready", out.Reason(func([]string) string { return "" }))
}
