package upgrade

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/harness"
)

// takeoverQPS has a scheduler be killed long before it is through.
const takeoverQPS = 20

// start starts a scheduler of a release alone, until it is stopped or the test ends.
func (s *space) start(r release, suffix string, qps int) *harness.Scheduler {
	s.T.Helper()
	o := r.options(s.T, s.Name+suffix)
	o.QPS = qps
	return s.StartScheduler(o)
}

// TestTakesOver: a scheduler is killed and leaves what it can leave: pods with devices, claims that are reserved for pods
// which are not bound, a gang that waits, a claim for extended resources. One of the other release goes on with all of it,
// and in the end the first one with what that has left.
func TestTakesOver(t *testing.T) {
	needsPrevious(t, "scheduler")
	t.Parallel()
	for _, way := range directions {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, "take-"+way.name, 2)
			first := s.start(way.first, "-1", takeoverQPS)
			extended := s.asksForExtended("extended", "1")
			s.Create(extended)
			s.createPart(0)
			s.runAll(partPods + 1)
			// One more than there are devices, with those that the second part gets.
			waiting := s.gang("late", s.left+partDevices)
			s.Waiting(waiting[0], fmt.Sprintf("of %d pods fit", len(waiting)))
			allow := s.RefuseBindings("request.name == 'single-1-002'")
			s.createPart(1)
			s.bindAtLeast(partPods + 1 + partPods/4)
			require.NoError(t, first.Kill())
			all := 2*partPods + 1
			bound := s.Bound()
			require.Less(t, bound, all, "one of the pods cannot be bound")
			allow()
			t.Logf("%s is killed with %d of %d pods bound and %d claims allocated", way.first, bound, all, s.Allocated())

			second := s.start(way.then, "-2", 0)
			t.Logf("after it: %s", versionOf(t, second))
			s.bindAtLeast(all)
			s.Waiting(waiting[0], fmt.Sprintf("of %d pods fit", len(waiting)))
			s.Running(extended.Name)
			s.deletePods(append(s.ofPart(0), "single-1-000")...)
			s.Running(waiting...)
			require.NoError(t, second.Stop())

			s.start(way.first, "-3", 0)
			later := s.asksForExtended("extended-later", "1")
			s.Create(later)
			s.Waiting(later.Name, "held by")
			s.deletePods("single-1-001")
			s.Running(later.Name, extended.Name)
			s.noNominations()
			require.Zero(t, s.NothingLeaked(), "all devices are in use")
			s.goesAway()
		})
	}
}

// ofPart are the names of the pods of a part.
func (s *space) ofPart(part int) (names []string) {
	ofPart := regexp.MustCompile(fmt.Sprintf(`^(single|double|shared|gang)-%d-`, part))
	for _, pod := range s.Pods() {
		if ofPart.MatchString(pod.Name) {
			names = append(names, pod.Name)
		}
	}
	return names
}

// asksForExtended makes a pod that asks for devices as an extended resource (KEP-5004).
func (s *space) asksForExtended(name, quantity string) *corev1.Pod {
	pod := s.Pod(name, nil)
	builder.Extended(corev1.ResourceName(s.Implicit()), quantity)(pod)
	return pod
}
