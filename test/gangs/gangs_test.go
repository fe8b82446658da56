package gangs

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

// TestTwoGangs: together they want more than there is. One runs, the other waits whole and says what it lacks.
func TestTwoGangs(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "two", false, 3, 2)
	s.group("first", 4)
	first := s.members("first", 0, 4)
	s.Running(first...)
	s.group("second", 4)
	second := s.members("second", 0, 4)
	for _, pod := range second {
		s.Waiting(pod, "2 of 4 pods fit", "2 more devices of class "+s.Name, "group "+s.Name+"/first holds 4")
	}
	require.Equal(t, 4, s.Allocated())
	s.deletePods(first...)
	s.Running(second...)
}

// TestTenGangs: ten gangs of eight for devices of six. Six run, four wait, at no time does one hold a part.
func TestTenGangs(t *testing.T) {
	harness.Long(t, "eighty pods come")
	t.Parallel()
	const gangs, size, fit = 10, 8, 6
	s := newSpace(t, "ten", false, 6, 8)
	pods := make(map[string][]string)
	for i := range size { // Pods of all gangs come mixed.
		for g := range gangs {
			name := fmt.Sprintf("gang-%d", g)
			if i == 0 {
				s.group(name, size)
			}
			pods[name] = append(pods[name], s.members(name, i, 1)...)
		}
	}
	s.Eventually("six gangs run whole", func(context.Context) error {
		running := 0
		for name, members := range pods {
			n := 0
			for _, pod := range members {
				known, err := s.KnownPod(pod)
				if err == nil && known.Spec.NodeName != "" {
					n++
				}
			}
			if n == size {
				running++
			} else if n > 0 {
				return fmt.Errorf("%d of %d pods of %s run", n, size, name)
			}
		}
		if running != fit {
			return fmt.Errorf("%d gangs run", running)
		}
		return nil
	})
	require.Equal(t, fit*size, s.Allocated())
}

// TestNotComplete: pods wait until there are enough of them, and until there is a PodGroup.
func TestNotComplete(t *testing.T) {
	harness.Long(t, "pods come one after the other")
	t.Parallel()
	s := newSpace(t, "few", false, 2, 2)
	pods := s.members("late", 0, 2)
	s.Waiting(pods[0], "PodGroup "+s.Name+"/late", "there is none of that name")
	s.group("late", 3)
	s.Waiting(pods[0], "2 of 3 pods exist (minMember)")
	pods = append(pods, s.members("late", 2, 1)...)
	s.RunningSoon(pods...)
	more := s.members("late", 3, 2) // Beyond minMember, each for itself; one device is left.
	s.Eventually("one more runs", func(context.Context) error {
		if n := s.Bound(); n != 4 {
			return fmt.Errorf("%d pods are bound", n)
		}
		return nil
	})
	_ = more
	require.Equal(t, 4, s.Allocated())
}

// TestWithoutDevices: a gang may want nothing but CPU.
func TestWithoutDevices(t *testing.T) {
	harness.Long(t, "pods without devices need nothing that only an API server has")
	t.Parallel()
	s := newSpace(t, "cpu", false, 2, 0)
	s.group("web", 3)
	var pods []string
	for i := range 3 {
		pod := in("web", s.Pod(fmt.Sprintf("web-%d", i), nil))
		pod.Spec.Containers[0].Resources.Requests = builder.Resources("cpu", "12")
		s.Create(pod)
		pods = append(pods, pod.Name)
	}
	s.Running(pods...)
	s.group("more", 3)
	for i := range 3 {
		pod := in("more", s.Pod(fmt.Sprintf("more-%d", i), nil))
		pod.Spec.Containers[0].Resources.Requests = builder.Resources("cpu", "12")
		s.Create(pod)
	}
	s.Waiting("more-0", "1 of 3 pods fit", "Insufficient cpu")
}

// TestMinResources: what the group wants at least has to be free in the cluster before the group is tried. What its own pods have
// counts as free, so that one of them can be replaced.
func TestMinResources(t *testing.T) {
	harness.Long(t, "groups and pods change several times")
	t.Parallel()
	const unit = "example.com/unit" // No other test's nodes have it.
	s := newSpace(t, "resources", false, 0, 0)
	node := fleet.Node(s.Node(0), s.Name, nil)
	node.Status.Capacity[unit], node.Status.Allocatable[unit] = resource.MustParse("3"), resource.MustParse("3")
	s.Create(node)
	create := func(group string, i int) string {
		pod := in(group, s.Pod(fmt.Sprintf("%s-%d", group, i), nil))
		pod.Spec.Containers[0].Resources.Requests = builder.Resources(unit, "1")
		pod.Spec.Containers[0].Resources.Limits = builder.Resources(unit, "1")
		s.Create(pod)
		return pod.Name
	}
	for group, units := range map[string]string{"more": "4", "all": "3"} {
		s.group(group, 3, func(group *v1alpha1.PodGroup) { group.Spec.MinResources = builder.Resources(unit, units) })
	}
	var more, all []string
	for i := range 3 {
		more = append(more, create("more", i))
	}
	for _, pod := range more {
		s.Waiting(pod, "less of "+unit+" is free in the cluster than it wants at least (minResources: 4)")
	}
	for i := range 3 {
		all = append(all, create("all", i))
	}
	s.Running(all...)
	s.deletePods(all[0])
	s.RunningSoon(append(all[1:], create("all", 3))...)
}
