package kueue

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

const (
	// groupLabel and groupSize make pods a group of Kueue's.
	groupLabel = "kueue.x-k8s.io/pod-group-name"
	groupSize  = "kueue.x-k8s.io/pod-group-total-count"
)

// testPods: Kueue admits pods without a job whole. Of two groups with two pods each, a quota of three devices admits one.
func testPods(t *testing.T) {
	s := newSpace(t, "pods", queueOptions{quota: 3}, 4)
	first := s.podGroup("first", 2)
	s.Running(first...)
	second := s.podGroup("second", 2)
	s.says("second", "QuotaReserved", "False", "Pending", "insufficient unused quota for "+quotaName)
	for _, name := range second {
		require.Contains(t, s.LivePod(name).Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "kueue.x-k8s.io/admission"})
	}
	s.outsider("outsider", 2) // The devices are free.
	s.gone("outsider")
	for _, name := range first {
		require.NoError(t, s.succeed(t.Context(), name))
	}
	s.Running(second...)
}

// podGroup creates pods with a device each as a group of Kueue's, and returns their names.
func (s *space) podGroup(group string, count int) (names []string) {
	s.T.Helper()
	for i := range count {
		pod := s.Pod(fmt.Sprintf("%s-%d", group, i), builder.FromTemplate(template))
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Labels[queueLabel], pod.Labels[groupLabel] = queue, group
		pod.Annotations = map[string]string{groupSize: fmt.Sprint(count)}
		s.Create(pod)
		names = append(names, pod.Name)
	}
	return names
}

// testGangs: Kueue admits a job whole, and a PodGroup has its pods start whole: none takes a device as long as there are too few.
func testGangs(t *testing.T) {
	for name, kind := range map[string]struct {
		group runtime.Object
		in    func(*batchv1.Job)
		part  string
	}{
		"of scheduler-plugins": {
			&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "gang"}, Spec: v1alpha1.PodGroupSpec{MinMember: 3}},
			func(job *batchv1.Job) { job.Spec.Template.Labels[v1alpha1.PodGroupLabel] = "gang" },
			"2 of 3 pods fit",
		},
		"of Kubernetes": {
			&schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "gang"}, Spec: schedulingapi.PodGroupSpec{
				SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: 3}},
			}},
			func(job *batchv1.Job) {
				job.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("gang")}
			},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, "gangs", queueOptions{quota: 3}, 2, 2)
			s.outsider("outsider", 2)
			s.Create(kind.group)
			s.job("job", 3, kind.in)
			s.says("job", "Admitted", "True", "Admitted")
			s.waits("job", 3, kind.part)
			s.StaysBound(1)
			s.gone("outsider")
			s.runs("job", 3)
		})
	}
}

// testDomain: Kueue counts the devices of a job, and a PodGroup keeps its pods in one rack that has them.
func testDomain(t *testing.T) {
	s := newSpace(t, "domain", queueOptions{quota: 4}, 1, 1, 1, 1)
	for node := range 4 {
		s.LabelNode(node, rackLabel, fmt.Sprintf("rack-%d", node%2))
	}
	s.outsider("outsider", 1, s.onNode(0))
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Name: "gang", Annotations: map[string]string{"quartermaster-dra.github.io/required-domain": "label=" + rackLabel},
	}, Spec: v1alpha1.PodGroupSpec{MinMember: 2}}
	s.Create(group)
	s.job("job", 2, func(job *batchv1.Job) { job.Spec.Template.Labels[v1alpha1.PodGroupLabel] = "gang" })
	var nodes []string
	for _, pod := range s.runs("job", 2) {
		nodes = append(nodes, s.LivePod(pod).Spec.NodeName)
	}
	require.ElementsMatch(t, []string{s.Node(1), s.Node(3)}, nodes)
}
