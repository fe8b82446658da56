package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// backing says which resources devices back.
type backing func(v1.ResourceName) bool

func (b backing) Backed(name v1.ResourceName) bool { return b(name) }

// TestMinResourcesOfPodsThatRun: minResources is for all pods of the group, so the resources of those that run count as free.
func TestMinResourcesOfPodsThatRun(t *testing.T) {
	t.Parallel()
	running := func(name, group string) *v1.Pod {
		return builder.Pod(name, builder.Container("main", "cpu", "2"), func(pod *v1.Pod) {
			pod.Labels = map[string]string{v1alpha1.PodGroupLabel: group}
		})
	}
	tests := map[string]struct {
		pods []*v1.Pod
		cpu  string // of a node with eight CPUs
		why  string
	}{
		"all is free":        {cpu: "8"},
		"too little":         {cpu: "9", why: "group default/gang: less of cpu is free in the cluster than it wants at least (minResources: 9)"},
		"others have some":   {cpu: "7", pods: []*v1.Pod{running("a", "other")}, why: "group default/gang: less of cpu is free in the cluster than it wants at least (minResources: 7)"},
		"its own have some":  {cpu: "8", pods: []*v1.Pod{running("a", "gang"), running("b", "gang")}},
		"both":               {cpu: "6", pods: []*v1.Pod{running("a", "gang"), running("b", "other")}},
		"nothing is wanted":  {pods: []*v1.Pod{running("a", "other")}},
		"not as free as all": {cpu: "7", pods: []*v1.Pod{running("a", "gang"), running("b", "other")}, why: "group default/gang: less of cpu is free in the cluster than it wants at least (minResources: 7)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := framework.NewNodeInfo(test.pods...)
			info.SetNode(&v1.Node{Status: v1.NodeStatus{Allocatable: builder.Resources("cpu", "8")}})
			group := &Group{Name: "default/gang"}
			if test.cpu != "" {
				group.MinResources = builder.Resources("cpu", test.cpu)
			}
			err := (&Coordinator{}).Enough(group, []fwk.NodeInfo{info})
			if test.why != "" {
				require.EqualError(t, err, test.why)
			} else {
				require.NoError(t, err)
			}
			require.Len(t, info.GetPods(), len(test.pods), "the snapshot is not ours to change")
		})
	}
}

// TestMinResourcesThatDevicesBack: resources that devices back are not checked, because no node has them, however many
// devices there are.
func TestMinResourcesThatDevicesBack(t *testing.T) {
	t.Parallel()
	info := framework.NewNodeInfo()
	info.SetNode(&v1.Node{Status: v1.NodeStatus{Allocatable: builder.Resources("cpu", "8")}})
	group := &Group{Name: "default/gang", MinResources: builder.Resources("cpu", "8", "example.com/gpu", "4")}
	require.ErrorContains(t, (&Coordinator{}).Enough(group, []fwk.NodeInfo{info}), "less of example.com/gpu is free")
	backed := func(name v1.ResourceName) bool { return name == "example.com/gpu" }
	require.NoError(t, (&Coordinator{Cluster: Cluster{Backing: backing(backed)}}).Enough(group, []fwk.NodeInfo{info}))
	group.MinResources = builder.Resources("cpu", "9", "example.com/gpu", "4")
	require.ErrorContains(t, (&Coordinator{Cluster: Cluster{Backing: backing(backed)}}).Enough(group, []fwk.NodeInfo{info}), "less of cpu is free")
}
