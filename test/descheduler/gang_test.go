package descheduler

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// gang is the name of the PodGroup of three pods.
const gang = "gang"

func testGangOfPlugins(t *testing.T) {
	testGang(t, &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: gang}, Spec: v1alpha1.PodGroupSpec{MinMember: 3}},
		func(pod *corev1.Pod) { pod.Labels[v1alpha1.PodGroupLabel] = gang })
}

func testGangOfKubernetes(t *testing.T) {
	testGang(t, &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: gang}, Spec: schedulingapi.PodGroupSpec{
		SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: 3}},
	}}, builder.InGroup(gang))
}

// testGang: if one pod of a gang is evicted, the others run on, and what replaces it joins them as soon as there is a device.
func testGang(t *testing.T, group runtime.Object, in func(*corev1.Pod)) {
	s := newSpace(t, gang, 3, 1)
	s.Create(group)
	s.deploy(app, 3, withDevice, in)
	first := s.runs(app, 3)
	s.open(1)
	s.taint(0)
	evicted := s.deschedule(violatingTaints.limitedTo(1))
	require.Len(t, evicted, 1)
	require.Subset(t, append(s.runs(app, 3), evicted...), first)
	require.Len(t, s.deschedule(violatingTaints.limitedTo(1)), 1)
	running, _ := s.settles(app, 2, 1, "untolerated taint")
	s.untaint(0)
	require.Subset(t, s.runs(app, 3), running)
}
