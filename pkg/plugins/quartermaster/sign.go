package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// SignPod keeps pods with claims out of opportunistic batching: what was found for
// one says nothing yet about the next. Pods without claims are of no concern to
// this plugin, so it adds nothing to their signature.
func (pl *Quartermaster) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if len(pod.Spec.ResourceClaims) > 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pods with resource claims are not batched")
	}
	return nil, nil
}
