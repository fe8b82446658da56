package quartermaster

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
)

// scheduled returns the pod's PodScheduled condition, nil if it has none.
func scheduled(pod *v1.Pod) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == v1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// recorded returns the events since the last call.
func (f *fixture) recorded() []string {
	var events []string
	for {
		select {
		case event := <-f.recorder.Events:
			events = append(events, event)
		default:
			return events
		}
	}
}

// gated lets PreEnqueue reject the pod.
func (f *fixture) gated(name string) {
	status := f.pl.PreEnqueue(f.ctx, f.pod(name))
	require.True(f.t, status.IsRejected(), "%v", status)
}

// afterDelay waits for the time that a claim may be missing.
func (f *fixture) afterDelay() {
	time.Sleep(queue.Delay)
	f.settle()
}

const missingText = "claim for gpu in the pod has not been created yet; waiting for it to be made from template default/template-gpu " +
	"(if this lasts: no such template or a quota; see event FailedResourceClaimCreation of the pod)"

func TestGateReportsMissingTemplate(t *testing.T) {
	t.Parallel()
	inCluster(t, []runtime.Object{newPod("p", template("gpu"))}, func(t *testing.T, f *fixture) {
		f.gated("p")
		f.settle()
		require.Nil(t, scheduled(f.pod("p")), "too early: the claim is probably being made")
		f.afterDelay()

		condition := scheduled(f.pod("p"))
		require.NotNil(t, condition)
		require.Equal(t, v1.ConditionFalse, condition.Status)
		require.Equal(t, v1.PodReasonUnschedulable, condition.Reason)
		require.Equal(t, missingText, condition.Message)
		require.Equal(t, []string{"Warning FailedScheduling " + missingText}, f.recorded())

		f.gated("p")
		f.afterDelay()
		require.Empty(t, f.recorded(), "nothing new")
	})
}

// justCreated is a pod of a burst that begins now.
func justCreated(pod *v1.Pod) { pod.CreationTimestamp = metav1.Now() }

// TestGateWaitsWhileClaimsAreMade: of many pods created at once, most wait for their claims for a while. That is not
// worth a status update of each.
func TestGateWaitsWhileClaimsAreMade(t *testing.T) {
	t.Parallel()
	inCluster(t, []runtime.Object{newPod("p", template("gpu"), justCreated), newPod("other", template("gpu"), justCreated)}, func(t *testing.T, f *fixture) {
		f.gated("p")
		for i := range 5 {
			f.create(with(gpus(fmt.Sprintf("other-%d", i), 1).Obj(), ownedBy("other"), calledByPod("gpu")))
			f.afterDelay()
			require.Nil(t, scheduled(f.pod("p")), "claims are being made for others")
		}
		for range 3 {
			f.afterDelay()
		}
		require.Equal(t, missingText, scheduled(f.pod("p")).Message, "nobody makes claims any more")
	})
}

// TestGateTellsWhoWasPassedOver: in a cluster with a steady stream of pods with claims, a missing template is reported
// as soon as elsewhere.
func TestGateTellsWhoWasPassedOver(t *testing.T) {
	t.Parallel()
	inCluster(t, []runtime.Object{newPod("p", template("gpu"), justCreated)}, func(t *testing.T, f *fixture) {
		f.gated("p")
		for i := range 5 {
			f.afterDelay()
			name := fmt.Sprintf("later-%d", i)
			f.create(newPod(name, template("gpu"), justCreated))
			f.create(with(gpus(name, 1).Obj(), ownedBy(name), calledByPod("gpu")))
			f.create(with(extended.NewClaim(f.pod("p")), func(claim *resourceapi.ResourceClaim) { claim.Name = name + "-extended" }))
			f.create(gpus(name+"-own", 1).Obj())
		}
		require.Equal(t, missingText, scheduled(f.pod("p")).Message)
	})
}

// TestGateTellsOfWhatIsNotToCome: while claims are being created for other pods, a wrong claim of a pod is reported.
func TestGateTellsOfWhatIsNotToCome(t *testing.T) {
	t.Parallel()
	thief := newPod("p", template("gpu"), made("gpu", "of-other"), justCreated)
	inCluster(t, []runtime.Object{thief, newPod("other", template("gpu"), justCreated)}, func(t *testing.T, f *fixture) {
		f.create(with(gpus("of-other", 1).Obj(), ownedBy("other"), calledByPod("gpu")))
		f.settle()
		f.gated("p")
		f.afterDelay()
		require.Contains(t, scheduled(f.pod("p")).Message, "claim default/of-other cannot be used")
	})
}

// TestGateDoesNotWaitForOthersClaims: a claim that the pod refers to by name is not created for it, however many are
// created for other pods.
func TestGateDoesNotWaitForOthersClaims(t *testing.T) {
	t.Parallel()
	inCluster(t, []runtime.Object{newPod("p", uses("c"), justCreated)}, func(t *testing.T, f *fixture) {
		f.gated("p")
		f.create(gpus("other", 1).Obj())
		f.afterDelay()
		require.Contains(t, scheduled(f.pod("p")).Message, "claim default/c (by-name-c in the pod) does not exist")
	})
}

// TestGateTriesWhoWasKeptOutInVain: the queue calls PreEnqueue with the pod from its failed attempt. If the pod's new
// claim was created at that moment, no further event follows.
func TestGateTriesWhoWasKeptOutInVain(t *testing.T) {
	t.Parallel()
	inCluster(t, []runtime.Object{gpus("made", 1).Obj(), newPod("p", template("gpu"))}, func(t *testing.T, f *fixture) {
		old, pod := f.pod("p"), f.pod("p").DeepCopy()
		pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("made")}}
		claim := gpus("made", 1).Obj()
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
		f.replace(claim)
		f.replace(pod)
		f.settle()
		f.forget()
		require.True(t, f.pl.PreEnqueue(f.ctx, old).IsRejected(), "as it was")
		require.Empty(t, f.names())
		f.afterDelay()
		require.Equal(t, []string{"default/p"}, f.names())

		f.forget()
		require.True(t, f.pl.PreEnqueue(f.ctx, old).IsRejected())
		f.pl.waiting.Begin(pod) // It was tried after that, and may wait for something else now.
		f.afterDelay()
		require.Empty(t, f.names())
	})
}

func TestGateReportsTheLatestReason(t *testing.T) {
	t.Parallel()
	inCluster(t, []runtime.Object{newPod("p", uses("a"), uses("b"))}, func(t *testing.T, f *fixture) {
		f.gated("p")
		f.create(gpus("a", 1).Obj())
		f.afterDelay()
		require.Contains(t, scheduled(f.pod("p")).Message, "claim default/b")
		require.Len(t, f.recorded(), 1)

		f.create(gpus("b", 1).Obj())
		f.remove(gpus("a", 1).Obj())
		f.settle()
		f.gated("p")
		f.afterDelay()
		require.Contains(t, scheduled(f.pod("p")).Message, "claim default/a")
		require.Len(t, f.recorded(), 1)
	})
}

func TestGateKeepsQuietIfTheClaimTurnsUp(t *testing.T) {
	t.Parallel()
	inCluster(t, []runtime.Object{newPod("p", uses("c"))}, func(t *testing.T, f *fixture) {
		f.gated("p")
		f.create(gpus("c", 1).Obj())
		f.afterDelay()
		require.Empty(t, f.recorded())
		for _, action := range f.client.Actions() {
			require.NotEqual(t, "patch", action.GetVerb(), "the status of the pod was changed")
		}
	})
}
