package preemption

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/test/harness"
)

var (
	cluster *harness.Cluster
	shared  harness.SharedScheduler
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "preemption"}, func(c *harness.Cluster) { cluster = c }, shared.Stop))
}

// The priority classes of the tests: pods without class have priority 0.
const (
	important = "preemption-important"
	urgent    = "preemption-urgent"
	patient   = "preemption-patient" // as important, but evicts nobody
)

// newSpace makes a space whose pods are scheduled by the scheduler that the tests share.
func newSpace(t *testing.T, name string, nodes int) *harness.Space {
	t.Helper()
	scheduler := shared.Get(t, cluster, harness.SchedulerOptions{Profile: "preemption"})
	createClasses(t)
	return cluster.NewSpace(t, name, scheduler.Profile, nodes)
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
