package quartermaster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// TestPreemptionDelay: the delay counts from the condition of the pod, or from its first attempt.
func TestPreemptionDelay(t *testing.T) {
	t.Parallel()
	pod := high("p", uses("c"))
	inCluster(t, plus(gpuNodes(1, "n1"), held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "a"), low("a", "n1", uses("a")), gpus("c", 1).Obj(), pod), func(t *testing.T, f *fixture) {
		profile := withDefaultPreemption(f)
		for _, pl := range f.pl.state.served() {
			pl.args.PreemptionDelay = &metav1.Duration{Duration: 2 * time.Minute}
		}
		first := preemptIn(t, f, profile, pod)
		require.Empty(t, first.victims)
		require.Equal(t, fwk.UnschedulableAndUnresolvable, first.status.Code())
		require.Equal(t, "no pods are evicted yet: an autoscaler has 2m0s to add a node (preemptionDelay)", first.status.Message())
		told := pod.DeepCopy()
		told.Status.Conditions = []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, LastTransitionTime: metav1.Now(),
		}}
		f.replace(told)
		time.Sleep(2*time.Minute - time.Second)
		require.Empty(t, preemptIn(t, f, profile, told).victims)
		time.Sleep(time.Second)
		require.Equal(t, []string{"a"}, preemptIn(t, f, profile, told).victims)
	})
}

// TestPreemptionDelayAfterGates: the time in which a pod had scheduling gates, or lacked a claim, does not count, unless a former process has
// tried it.
func TestPreemptionDelayAfterGates(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]time.Duration{"gated": time.Minute, "tried by a former process": -time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := high("p", uses("c"), func(pod *v1.Pod) {
				pod.Status.Conditions = []v1.PodCondition{{
					Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(bubbleBegins.Add(before)),
				}}
			})
			objects := plus(gpuNodes(1, "n1"), held(gpus("a", 1).Obj(), "n1", []string{"gpu-0"}, "a"), low("a", "n1", uses("a")), gpus("c", 1).Obj(), gpus("d", 9).Obj(), pod)
			inCluster(t, objects, func(t *testing.T, f *fixture) {
				require.NotEmpty(t, f.schedule(newPod("earlier", uses("d"))).phase) // From then on, the process leads.
				time.Sleep(11 * time.Minute)
				profile := withDefaultPreemption(f)
				for _, pl := range f.pl.state.served() {
					pl.args.PreemptionDelay = &metav1.Duration{Duration: 2 * time.Minute}
				}
				require.Equal(t, before > 0, len(preemptIn(t, f, profile, pod).victims) == 0)
			})
		})
	}
}
