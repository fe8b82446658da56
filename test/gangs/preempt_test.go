package gangs

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// high makes the priority class of a space, and returns its name.
func (s *space) high() string {
	s.T.Helper()
	name := s.Name + "-high"
	cluster.PriorityClass(s.T, name, 1000)
	s.T.Cleanup(func() {
		_ = cluster.Client.SchedulingV1().PriorityClasses().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return name
}

// important creates pods of a gang that have a priority, with a device each, and returns their names.
func (s *space) important(class, group string, count int) (names []string) {
	s.T.Helper()
	for i := range count {
		pod := in(group, s.Pod(fmt.Sprintf("%s-%d", group, i), builder.FromTemplate("one")))
		pod.Spec.PriorityClassName = class
		s.Create(pod)
		names = append(names, pod.Name)
	}
	return names
}

// bound returns how many of some pods have a node and are not about to go.
func (s *space) bound(pods []string) (n int) {
	for _, name := range pods {
		if pod, err := s.KnownPod(name); err == nil && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// TestEvictForAll: as many pods go as a gang needs, and none for a gang that would not fit even then.
func TestEvictForAll(t *testing.T) {
	harness.Long(t, "pods are evicted and end")
	t.Parallel()
	s := newSpace(t, "evict", false, 3, 2)
	var low []string
	for i := range 6 {
		pod := s.Pod(fmt.Sprintf("low-%d", i), builder.FromTemplate("one"))
		pod.Spec.TerminationGracePeriodSeconds = new(int64)
		s.Create(pod)
		low = append(low, pod.Name)
	}
	s.Running(low...)
	class := s.high()
	s.group("toolarge", 7)
	large := s.important(class, "toolarge", 7)
	s.Waiting(large[0], "0 of 7 pods fit", "no pods are evicted: the group would not fit even then")
	require.Equal(t, 6, s.bound(low))
	s.deletePods(large...)
	s.group("fits", 4)
	s.Running(s.important(class, "fits", 4)...)
	require.Equal(t, 2, s.bound(low), "no more than necessary went")
}

// TestEvictForMinResources: if a gang lacks only what it wants at least, those go who have it, and nobody else.
func TestEvictForMinResources(t *testing.T) {
	harness.Long(t, "pods are evicted and end")
	t.Parallel()
	s := newSpace(t, "evict-resources", false, 1, 4)
	resource := corev1.ResourceName(s.Name + ".example.com/things")
	s.Offer(0, string(resource), "3")
	var low []string
	for i, things := range []string{"", "1", "2"} {
		pod := s.Pod(fmt.Sprintf("low-%d", i), nil)
		pod.Spec.TerminationGracePeriodSeconds = new(int64)
		if things != "" {
			requests := builder.Resources(string(resource), things)
			pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Limits = requests, requests
		}
		s.Create(pod)
		low = append(low, pod.Name)
	}
	s.Running(low...)
	class := s.high()
	s.group("gang", 2, func(group *v1alpha1.PodGroup) { group.Spec.MinResources = builder.Resources(string(resource), "2") })
	s.Running(s.important(class, "gang", 2)...)
	require.Equal(t, 2, s.bound(low))
	require.Equal(t, 1, s.bound(low[:1]), "it has nothing that the gang lacks")
}

// TestGangsGoWhole: a gang that would fall below minMember goes whole, and pods beyond that alone.
func TestGangsGoWhole(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "whole", false, 3, 2)
	s.group("victim", 3)
	victim := s.members("victim", 0, 4)
	s.Running(victim...)
	class := s.high()
	s.group("first", 3) // Two devices are free, and the victim can do without one pod.
	s.Running(s.important(class, "first", 3)...)
	s.Eventually("three of the victim's pods are left", func(context.Context) error {
		if n := s.bound(victim); n != 3 {
			return fmt.Errorf("%d pods are left", n)
		}
		return nil
	})
	s.group("second", 1)
	s.Running(s.important(class, "second", 1)...)
	require.Zero(t, s.bound(victim), "two pods of it would be no gang")
}

// TestSinglesEvictGangs: a single pod evicts a gang as a whole, too.
func TestSinglesEvictGangs(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "single", false, 2, 2)
	s.group("victim", 4)
	victim := s.members("victim", 0, 4)
	s.Running(victim...)
	pod := s.Pod("single", builder.FromTemplate("one"))
	pod.Spec.PriorityClassName = s.high()
	s.Create(pod)
	s.Running("single")
	require.Zero(t, s.bound(victim))
}

// TestCPUOnly: pods without devices are evicted for a gang without devices.
func TestCPUOnly(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "evictcpu", false, 2, 0)
	heavy := func(name string) *corev1.Pod {
		pod := s.Pod(name, nil)
		pod.Spec.Containers[0].Resources.Requests = builder.Resources("cpu", "14")
		return pod
	}
	var low []string
	for i := range 4 {
		s.Create(heavy(fmt.Sprintf("low-%d", i)))
		low = append(low, fmt.Sprintf("low-%d", i))
	}
	s.Running(low...)
	class := s.high()
	s.group("high", 3)
	var pods []string
	for i := range 3 {
		pod := in("high", heavy(fmt.Sprintf("high-%d", i)))
		pod.Spec.PriorityClassName = class
		s.Create(pod)
		pods = append(pods, pod.Name)
	}
	s.Running(pods...)
	require.Equal(t, 1, s.bound(low))
}
