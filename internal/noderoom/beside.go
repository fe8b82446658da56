package noderoom

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// requested is CPU that pods request, in thousandths of a core: those with devices, and the others.
type requested struct{ withDevices, without int64 }

// Beside returns how much CPU pods without devices request on nodes with devices, for each core
// that pods with devices do there; 0 if there are none of these. Pods of daemon sets do not count:
// they take the same of each node, and that is no choice of anybody's.
func (r *Rooms) Beside() float64 {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if r.taken.withDevices <= 0 {
		return 0
	}
	return float64(r.taken.without) / float64(r.taken.withDevices)
}

// takes takes over what pods request on a node. It needs the mutex.
func (r *Rooms) takes(k *known, node fwk.NodeInfo) {
	var now requested
	if r.HasDevices != nil && r.HasDevices(node.Node().Name) {
		now = requestedOn(node)
	}
	r.taken.withDevices += now.withDevices - k.taken.withDevices
	r.taken.without += now.without - k.taken.without
	k.taken = now
}

func requestedOn(node fwk.NodeInfo) (sum requested) {
	for _, info := range node.GetPods() {
		pod, requests := info.GetPod(), info.CalculateResource().Resource.GetMilliCPU()
		switch {
		case len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil:
			sum.withDevices += requests
		case !ofDaemonSet(pod):
			sum.without += requests
		}
	}
	return sum
}

func ofDaemonSet(pod *v1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}
