package gangs

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/manifests"
	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// cluster is what all tests share.
var cluster *harness.Cluster

// shared is the scheduler that most tests use.
var shared harness.SharedScheduler

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{Name: "gangs"}, func(c *harness.Cluster) { cluster = c }, shared.Stop))
}

// space is the part of the cluster that belongs to one test.
type space struct {
	*harness.Space
	// shared is the scheduler that most tests use, nil if the test has schedulers of its own.
	shared *harness.Scheduler
}

// newSpace makes a space with nodes that have a number of devices each. With own, the test starts the schedulers itself.
func newSpace(t *testing.T, name string, own bool, nodes, devices int) *space {
	t.Helper()
	require.NoError(t, manifests.Apply(t.Context(), cluster.ControlPlane.AdminConfig(), manifests.PodGroups, manifests.ApplyOptions{}))
	profile, log := "", ""
	var scheduler *harness.Scheduler
	if !own {
		scheduler = shared.Get(t, cluster, harness.SchedulerOptions{Name: "shared"})
		profile, log = scheduler.Profile, scheduler.LogFile()
	}
	s := &space{cluster.NewSpace(t, name, profile, nodes), scheduler}
	s.Log = log
	for node := range nodes {
		if devices > 0 {
			s.Devices(node, harness.Numbered(devices)...)
		}
	}
	s.Create(builder.Claim("one", s.Want(1)).Template())
	return s
}

// group creates a PodGroup.
func (s *space) group(name string, minMember int32, edits ...func(*v1alpha1.PodGroup)) {
	s.T.Helper()
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PodGroupSpec{MinMember: minMember}}
	for _, edit := range edits {
		edit(group)
	}
	s.Create(group)
}

// in makes a pod one of a group.
func in(group string, pod *corev1.Pod) *corev1.Pod {
	if pod.Labels == nil {
		pod.Labels = make(map[string]string)
	}
	pod.Labels[v1alpha1.PodGroupLabel] = group
	return pod
}

// members creates pods of a group with a device each, numbered from some number on, and returns their names.
func (s *space) members(group string, from, count int) (names []string) {
	s.T.Helper()
	for i := range count {
		name := fmt.Sprintf("%s-%d", group, from+i)
		s.Create(in(group, s.Pod(name, builder.FromTemplate("one"))))
		names = append(names, name)
	}
	return names
}

// deletePods deletes pods at once. No pod may get one of these names afterwards: KWOK, which ends pods that are deleted,
// deletes by name, and may be late.
func (s *space) deletePods(names ...string) {
	s.T.Helper()
	for _, name := range names {
		err := cluster.Client.CoreV1().Pods(s.Name).Delete(s.T.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		require.NoError(s.T, err)
	}
}
