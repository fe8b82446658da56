package nodes

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// named selects nodes by name.
func named(names ...string) *v1.NodeSelector {
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: names}},
	}}}
}

func TestOnlyNode(t *testing.T) {
	t.Parallel()
	other := named("a")
	other.NodeSelectorTerms[0].MatchExpressions = []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpExists}}
	notIn := named("a")
	notIn.NodeSelectorTerms[0].MatchFields[0].Operator = v1.NodeSelectorOpNotIn
	for name, test := range map[string]struct {
		selectors []*v1.NodeSelector
		want      sets.Set[string]
	}{
		"none":                    {},
		"all nodes":               {selectors: []*v1.NodeSelector{nil}},
		"one":                     {selectors: []*v1.NodeSelector{named("a")}, want: sets.New("a")},
		"the same twice, and all": {selectors: []*v1.NodeSelector{named("a"), nil, named("a")}, want: sets.New("a")},
		"two nodes":               {selectors: []*v1.NodeSelector{named("a"), named("b")}},
		"either of two":           {selectors: []*v1.NodeSelector{named("a", "b")}},
		"one, and something else": {selectors: []*v1.NodeSelector{other}},
		"all but one":             {selectors: []*v1.NodeSelector{notIn}},
		"labels":                  {selectors: []*v1.NodeSelector{builder.NodeSelector("zone", "z")}},
		"labels, and one by name": {selectors: []*v1.NodeSelector{builder.NodeSelector("zone", "z"), named("a")}, want: sets.New("a")},
		"two terms":               {selectors: []*v1.NodeSelector{{NodeSelectorTerms: append(named("a").NodeSelectorTerms, named("a").NodeSelectorTerms...)}}},
	} {
		require.Equal(t, test.want, OnlyNode(test.selectors...), name)
	}
}

func TestOthersName(t *testing.T) {
	t.Parallel()
	require.False(t, OthersName(builder.Pod("p")))
	for name, edit := range map[string]func(*v1.PodSpec){
		"a volume that is claimed": func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}}}
		},
		"a volume that is made for it": func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{}, {VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
		},
		"a group": func(s *v1.PodSpec) { s.SchedulingGroup = &v1.PodSchedulingGroup{} },
		"names of nodes": func(s *v1.PodSpec) {
			s.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{}, {MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name"}}}}}}}
		},
	} {
		pod := builder.Pod("p")
		edit(&pod.Spec)
		require.True(t, OthersName(pod), name)
	}
	pod := builder.Pod("p")
	pod.Spec.Volumes, pod.Spec.Affinity = []v1.Volume{{}}, &v1.Affinity{PodAffinity: &v1.PodAffinity{}}
	require.False(t, OthersName(pod))
	pod.Spec.Affinity.NodeAffinity = &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone"}}}}}}
	require.False(t, OthersName(pod), "labels of nodes")
}

// The scheduler's verdicts on nodes can be written by JudgeOthers.
var _ statusWriter = &framework.NodeToStatus{}

// profile has PostFilter plugins in some order.
type profile struct {
	fwk.Handle
	postFilters []config.Plugin
}

func (p profile) ListPlugins() *config.Plugins {
	return &config.Plugins{PostFilter: config.PluginSet{Enabled: p.postFilters}}
}

func TestIsFirst(t *testing.T) {
	t.Parallel()
	ours, other := config.Plugin{Name: "Ours"}, config.Plugin{Name: "Other"}
	require.True(t, New(profile{postFilters: []config.Plugin{ours, other}}, "Ours").IsFirst())
	require.False(t, New(profile{postFilters: []config.Plugin{other, ours}}, "Ours").IsFirst())
	require.False(t, New(profile{}, "Ours").IsFirst())
	require.False(t, New(nil, "Ours").IsFirst(), "who cannot say what the order is")
}
