package quartermaster

import (
	"context"
	"crypto/sha256"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// claimsSignature is the key under which a pod is signed with the content of its claims.
const claimsSignature = Name + ".ResourceClaims"

// SignPod lets the scheduler batch pods whose claims were made from templates and ask
// for the same (kubernetes/kubernetes#134986): the nodes that were found for one are
// tried first for the next. A batch decides only in which order nodes are tried. Each
// pod still passes through PreFilter and through Filter on its node, with the state of
// devices at that moment, so no event in between can make a batch wrong.
//
// A pod whose claims are missing or allocated is not signed, nor is one that names
// claims which others may use as well: for these, other nodes are good than for the
// pod before. Pods without claims are of no concern to this plugin.
func (pl *Quartermaster) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil, nil
	}
	for i := range pod.Spec.ResourceClaims {
		if pod.Spec.ResourceClaims[i].ResourceClaimTemplateName == nil {
			return nil, notSigned("claim %s may be used by other pods", pod.Spec.ResourceClaims[i].Name)
		}
	}
	claims, err := pl.claims.Of(pod)
	if err != nil {
		return nil, notSigned("%v", err)
	}
	if pl.legacy.DependsOnController(claims) {
		return nil, notSigned("a controller may have to allocate a claim")
	}
	content := sha256.New()
	for _, claim := range claims {
		if claim.Status.Allocation != nil {
			return nil, notSigned("claim %s is allocated", klog.KObj(claim))
		}
		if !metav1.IsControlledBy(claim, pod) { // It was made for a PodGroup.
			return nil, notSigned("claim %s may be used by other pods", klog.KObj(claim))
		}
		spec, err := claim.Spec.Marshal()
		if err != nil {
			return nil, failed(fmt.Errorf("sign claim %s: %w", klog.KObj(claim), err))
		}
		fmt.Fprintf(content, "%d:", len(spec))
		content.Write(spec)
	}
	return []fwk.SignFragment{{Key: claimsSignature, Value: content.Sum(nil)}}, nil
}

// notSigned is the status of a pod that cannot be batched.
func notSigned(format string, args ...any) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, "the pod is not batched: "+fmt.Sprintf(format, args...))
}
