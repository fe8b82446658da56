package scenario

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/test/builder"
	"github.com/quartermaster-dra/quartermaster/test/playground/fleet"
)

// testDialect names claims and requests, and has a text for one cause.
var testDialect = Dialect{
	Name: "test", NamesClaim: true, NamesRequest: true,
	Texts: map[Cause][]string{"held": {"held by others"}},
}

// boundPod is a running pod of an app on node "n" that uses claims of the given
// names; its UID is its name.
func boundPod(app, name string, claims ...string) *corev1.Pod {
	pod := waitingPod(app, name, "", claims...)
	pod.Spec.NodeName = "n"
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning}
	return pod
}

// waitingPod is a pod that the scheduler could not place for a reason; without
// one it has not been looked at.
func waitingPod(app, name, reason string, claims ...string) *corev1.Pod {
	pod := builder.AppPod(name, app, builder.Using(builder.Uses(claims...)...))
	pod.UID = types.UID(name)
	pod.Namespace = "ns"
	pod.Status.Phase = corev1.PodPending
	if reason != "" {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: reason,
		}}
	}
	return pod
}

// allocatedClaim holds the named devices of pool "n" for request "gpu" and is
// reserved for the pods with the given names.
func allocatedClaim(name string, devices []string, consumers ...string) *resourceapi.ResourceClaim {
	claim := builder.Claim(name, builder.Request("gpu", "gpu")).Obj()
	claim.UID = types.UID("claim-" + name)
	claim.Namespace = "ns"
	claim.Finalizers = []string{resourceapi.Finalizer}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for _, device := range devices {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: "gpu", Driver: fleet.GPUDriver, Pool: "n", Device: device})
	}
	for _, consumer := range consumers {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor,
			resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: consumer, UID: types.UID(consumer)})
	}
	return claim
}

// snapshotOf puts objects of a namespace together with the slice of pool "n".
func snapshotOf(objects ...metav1.Object) *Snapshot {
	s := &Snapshot{
		Namespace: "ns",
		Slices: []*resourceapi.ResourceSlice{
			fleet.LocalSlice(fleet.GPUDriver, "n", fleet.PlainGPUs("n", 0, 8)...).Obj(),
		},
	}
	for _, object := range objects {
		switch object := object.(type) {
		case *corev1.Pod:
			s.Pods = append(s.Pods, object)
		case *resourceapi.ResourceClaim:
			s.Claims = append(s.Claims, object)
		case *corev1.Event:
			s.Events = append(s.Events, object)
		}
	}
	return s
}

// eventAbout is a warning about the pod with a name.
func eventAbout(pod, message string) *corev1.Event { return eventBecause("Warned", pod, message) }

func eventBecause(reason, pod, message string) *corev1.Event {
	return &corev1.Event{
		InvolvedObject: corev1.ObjectReference{UID: types.UID(pod)},
		Reason:         reason, Message: message,
	}
}

// change applies a change to an object and returns it.
func change[T any](object T, apply func(T)) T {
	apply(object)
	return object
}

func deleting(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.Now()) }
