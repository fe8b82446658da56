package karpenter

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// testClaim: a pod that waits for devices gets a node of the cheapest kind that has them.
func testClaim(t *testing.T) {
	s := newSpace(t, "claim", poolOptions{})
	s.Create(s.Pod("one", builder.FromTemplate(one)))
	s.Running("one")
	require.Equal(t, "gpu-one", s.kind("one"))
	s.Create(s.Pod("two", builder.FromTemplate(two)))
	s.Running("two")
	require.Equal(t, "gpu-two", s.kind("two"))
	s.claimedOnce(2)
}

// testLate: a pod waits for a node whose devices are not published yet. Karpenter knows which they will be, and adds no other node.
func testLate(t *testing.T) {
	s := newSpace(t, "late", poolOptions{byHand: true})
	s.Create(s.Pod("first", builder.FromTemplate(one)))
	first := s.nodes(1)[0]
	s.says(nodeClaims, s.claimedOnce(1)[0], "Initialized", "Unknown", "DRADriverPoolsNotPublished")
	s.Waiting("first", "the node has no devices that can be used")
	// For another pod, Karpenter looks at all waiting pods again.
	s.Create(s.Pod("second", builder.FromTemplate(two)))
	s.nodes(2)
	s.claimedOnce(2)
	require.NoError(t, s.publish(t.Context(), &first))
	s.Running("first")
	require.Equal(t, first.Name, s.node("first").Name)
	for _, node := range s.nodes(2) {
		require.NoError(t, s.publish(t.Context(), &node))
	}
	s.Running("second")
	s.claimedOnce(2)
}

// testGangs: Karpenter adds a node for each pod of a gang. The gang starts whole, once the last node has its devices.
func testGangs(t *testing.T) {
	for name, kind := range map[string]struct {
		group runtime.Object
		in    func(*corev1.Pod)
		parts []string
	}{
		"of scheduler-plugins": {
			&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "gang"}, Spec: v1alpha1.PodGroupSpec{MinMember: 2}},
			func(pod *corev1.Pod) { pod.Labels[v1alpha1.PodGroupLabel] = "gang" },
			[]string{"1 of 2 pods fit"},
		},
		"of Kubernetes": {
			&schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "gang"}, Spec: schedulingapi.PodGroupSpec{
				SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: 2}},
			}},
			builder.InGroup("gang"),
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, "gang", poolOptions{byHand: true})
			s.Create(kind.group)
			for _, name := range []string{"a", "b"} {
				pod := s.Pod(name, builder.FromTemplate(two))
				kind.in(pod)
				s.Create(pod)
			}
			nodes := s.nodes(2)
			require.NoError(t, s.publish(t.Context(), &nodes[0]))
			s.Waiting("a", kind.parts...)
			s.Waiting("b", kind.parts...)
			s.StaysBound(0)
			require.NoError(t, s.publish(t.Context(), &nodes[1]))
			s.Running("a", "b")
			require.NotEqual(t, s.node("a").Name, s.node("b").Name)
			s.claimedOnce(2)
		})
	}
}

// testNoNode: Karpenter adds no node for pods that wait for something that no node would have.
func testNoNode(t *testing.T) {
	s := newSpace(t, "no-node", poolOptions{})
	s.AddNode(0, nil)
	s.Devices(0, harness.Numbered(1)...)
	s.Known()
	waiting := map[string]struct {
		request      *builder.RequestBuilder
		ours, theirs string
	}{
		"more-than-any-node": {s.Want(3), "3 asked", "no instance type can satisfy the allocation"},
		"different-devices":  {s.Want(1, s.Attribute("index")+" == 7"), "no device matches", "no instance type can satisfy the allocation"},
		"expression-fails":   {s.Want(1, s.Attribute("missing")+" == 1"), "no such key", "no such key"},
		"no-such-class":      {builder.Request("gpu", "none-such"), "none-such", "not found"},
		"alternatives":       {builder.FirstAvailable("gpu", s.Want(2)), "2 asked", "only Exactly requests are supported"},
	}
	for name, pod := range waiting {
		s.ClaimAndPod(name, pod.request)
	}
	for name, pod := range waiting {
		s.Waiting(name, pod.ours)
		s.told(s.Name, name, "FailedScheduling", pod.theirs)
	}
	// For another pod, Karpenter looks at all waiting pods again.
	other := s.Pod("other", builder.FromTemplate(one))
	other.Spec.NodeSelector[corev1.LabelInstanceTypeStable] = "gpu-one"
	s.Create(other)
	s.Running("other")
	s.claimedOnce(1)
	for name, pod := range waiting {
		s.Waiting(name, pod.ours)
	}
}
