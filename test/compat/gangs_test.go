package compat

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// Two gangs of scheduler-plugins' PodGroups want three devices each, and there are four. One runs, the other one waits
// whole until that is gone.
func TestGangs(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "gangs", 2)
	for node := range 2 {
		s.Devices(node, harness.Numbered(2)...)
	}
	s.Create(builder.Claim("one", s.Want(1)).Template())
	gang := func(name string) []string {
		return createGang(s, name, 3, func(name string) *corev1.Pod { return s.Pod(name, builder.FromTemplate("one")) })
	}
	first := gang("first")
	s.Running(first...)
	second := gang("second")
	for _, pod := range second {
		s.Waiting(pod, "1 of 3 pods fit: 2 more devices of class "+s.Name, "group "+s.Name+"/first holds 3")
	}
	require.Equal(t, 3, s.Allocated())
	for _, pod := range first {
		s.DeletePod(pod)
	}
	s.Running(second...)
}

// createGang creates a PodGroup that needs all of its pods, and these.
func createGang(s *harness.Space, name string, pods int, pod func(name string) *corev1.Pod) (names []string) {
	s.T.Helper()
	require.NoError(s.T, manifests.Apply(s.T.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
	s.Create(&v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PodGroupSpec{MinMember: int32(pods)}})
	for i := range pods {
		member := pod(fmt.Sprintf("%s-%d", name, i))
		metav1.SetMetaDataLabel(&member.ObjectMeta, v1alpha1.PodGroupLabel, name)
		s.Create(member)
		names = append(names, member.Name)
	}
	return names
}

// Gangs may want nothing but CPU, of which there is enough for one of two.
func TestGangsOfCPU(t *testing.T) {
	t.Parallel()
	profile, log := sharedScheduler(t)
	s := cluster.NewSpace(t, "gangs-cpu", profile, 2)
	s.Log = log
	large := func(name string) *corev1.Pod { return withCPUs(s.Pod(name, nil), "12", "") }
	first := createGang(s, "first", 3, large)
	s.Running(first...)
	second := createGang(s, "second", 3, large)
	for _, pod := range second {
		s.Waiting(pod, "1 of 3 pods fit", "Insufficient cpu")
	}
	for _, pod := range first {
		s.DeletePod(pod)
	}
	s.Running(second...)
}

// Claims of a gang that controllers of drivers allocate are not planned: only these know where they can be had. Where there is
// room for all, all run. A gang for which there is not gives back what it got.
func TestClassicGang(t *testing.T) {
	t.Parallel()
	s := newClassicSpace(t, "c-gang", 2)
	newDriver(s, "one", places(2, 2)).createTemplate("one")
	member := func(name string) *corev1.Pod { return s.Pod(name, builder.FromTemplate("one")) }
	gang := createGang(s, "gang", 3, member)
	s.RunningSoon(gang...)
	second := createGang(s, "second", 2, member)
	s.Waiting(second[0])
	s.Create(member("single"))
	s.RunningSoon("single")
	for _, pod := range gang {
		s.DeletePod(pod)
	}
	s.RunningSoon(second...)
}
