package noderesources

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// requested is the CPU that pods with devices and other pods request, in thousandths of a core.
type requested struct{ withDevices, without int64 }

// Beside returns how much CPU pods without devices request on nodes with devices, per core that
// pods with devices request there; 0 if there are no such pods. Pods that belong to the node do not
// count.
func (r *Free) Beside() float64 {
	r.mutex.RLock()
	defer r.mutex.RUnlock()
	if r.taken.withDevices <= 0 {
		return 0
	}
	return float64(r.taken.without) / float64(r.taken.withDevices)
}

// takes updates the requests of the pods on a node. The caller must hold the mutex.
func (r *Free) takes(k *known, node fwk.NodeInfo) {
	var now requested
	if r.Devices != nil && r.Devices.IsLocal(node.Node().Name) {
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
		case !belongs(pod):
			sum.without += requests
		}
	}
	return sum
}

// since returns Resources.Since.
func since(pods []fwk.PodInfo) int64 {
	first := int64(0)
	for _, info := range pods {
		pod := info.GetPod()
		if belongs(pod) {
			continue
		}
		if first == 0 {
			first = InUse
		}
		if started := pod.Status.StartTime; started != nil {
			first = min(first, max(1, started.Unix()))
		}
	}
	return first
}

// belongs reports whether a pod runs on its node whatever is chosen, as long as there is the node: it is of a DaemonSet
// or of the node itself (a static pod).
func belongs(pod *v1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}
