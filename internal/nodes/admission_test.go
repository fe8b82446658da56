package nodes

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

func TestAdmission(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod  v1.PodSpec
		node v1.NodeSpec
		want bool
	}{
		"no conditions": {want: true},
		"label":         {pod: v1.PodSpec{NodeSelector: map[string]string{"zone": "a"}}, want: true},
		"another label": {pod: v1.PodSpec{NodeSelector: map[string]string{"zone": "b"}}},
		"affinity": {pod: v1.PodSpec{Affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: "zone", Operator: v1.NodeSelectorOpNotIn, Values: []string{"a"}}}}}}}}}},
		"taint":          {node: v1.NodeSpec{Taints: []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}}}},
		"tolerated":      {pod: v1.PodSpec{Tolerations: []v1.Toleration{{Key: "gpu", Operator: v1.TolerationOpExists}}}, node: v1.NodeSpec{Taints: []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoExecute}}}, want: true},
		"preferred":      {node: v1.NodeSpec{Taints: []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectPreferNoSchedule}}}, want: true},
		"cordoned":       {node: v1.NodeSpec{Unschedulable: true}},
		"cordoned, also": {pod: v1.PodSpec{Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists}}}, node: v1.NodeSpec{Unschedulable: true}, want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := &v1.Node{Spec: test.node}
			node.Labels = map[string]string{"zone": "a"}
			require.Equal(t, test.want, Admission(klog.Background(), &v1.Pod{Spec: test.pod})(node))
		})
	}
}

func TestDependsOnPods(t *testing.T) {
	t.Parallel()
	terms := []v1.PodAffinityTerm{{TopologyKey: "zone"}}
	tests := map[string]struct {
		pod  v1.PodSpec
		want bool
	}{
		"no conditions":  {},
		"spread":         {pod: v1.PodSpec{TopologySpreadConstraints: []v1.TopologySpreadConstraint{{WhenUnsatisfiable: v1.DoNotSchedule}}}, want: true},
		"soft spread":    {pod: v1.PodSpec{TopologySpreadConstraints: []v1.TopologySpreadConstraint{{WhenUnsatisfiable: v1.ScheduleAnyway}}}},
		"affinity":       {pod: v1.PodSpec{Affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}}, want: true},
		"anti-affinity":  {pod: v1.PodSpec{Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}}, want: true},
		"soft affinity":  {pod: v1.PodSpec{Affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{}}}},
		"host port":      {pod: v1.PodSpec{Containers: []v1.Container{{Ports: []v1.ContainerPort{{HostPort: 80}}}}}, want: true},
		"container port": {pod: v1.PodSpec{Containers: []v1.Container{{Ports: []v1.ContainerPort{{ContainerPort: 80}}}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, DependsOnPods(&v1.Pod{Spec: test.pod}))
		})
	}
}

func TestHasPreferences(t *testing.T) {
	t.Parallel()
	weighted := []v1.WeightedPodAffinityTerm{{Weight: 1}}
	tests := map[string]struct {
		affinity    *v1.Affinity
		constraints []v1.TopologySpreadConstraint
		want        bool
	}{
		"nothing":       {},
		"required":      {affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{}}, PodAffinity: &v1.PodAffinity{}, PodAntiAffinity: &v1.PodAntiAffinity{}}},
		"nodes":         {affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{}}}}, want: true},
		"pods":          {affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}}, want: true},
		"not pods":      {affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}}, want: true},
		"spread":        {constraints: []v1.TopologySpreadConstraint{{WhenUnsatisfiable: v1.ScheduleAnyway}}, want: true},
		"strict spread": {constraints: []v1.TopologySpreadConstraint{{WhenUnsatisfiable: v1.DoNotSchedule}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, HasPreferences(&v1.Pod{Spec: v1.PodSpec{Affinity: test.affinity, TopologySpreadConstraints: test.constraints}}))
		})
	}
}
