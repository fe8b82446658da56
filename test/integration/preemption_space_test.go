package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// The priority classes of the tests: pods without class have priority 0.
const (
	important = "preemption-important"
	urgent    = "preemption-urgent"
	patient   = "preemption-patient" // as important, but evicts nobody
)

// newPreemptionSpace makes a space for pods of the shared scheduler, in a cluster that is full: pods of higher priority come, and others
// end as with a kubelet, after a grace period, and their claims later.
func newPreemptionSpace(t *testing.T, name string, nodes int) *harness.Space {
	t.Helper()
	createClasses(t)
	return newSpace(t, name, nodes).Space
}

func createClasses(t *testing.T) {
	t.Helper()
	never := corev1.PreemptNever
	for _, class := range []*schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: important}, Value: 1000},
		{ObjectMeta: metav1.ObjectMeta{Name: urgent}, Value: 2000},
		{ObjectMeta: metav1.ObjectMeta{Name: patient}, Value: 1000, PreemptionPolicy: &never},
	} {
		cluster.CreatePriorityClass(t, class)
	}
}

// ofClass gives a pod a priority class.
func ofClass(pod *corev1.Pod, class string) *corev1.Pod {
	pod.Spec.PriorityClassName = class
	return pod
}

// endsAfter has a pod take some time to end once it is deleted.
func endsAfter(pod *corev1.Pod, duration string) *corev1.Pod {
	pod.Annotations = map[string]string{"pod-delete.stage.kwok.x-k8s.io/delay": duration}
	return pod
}
