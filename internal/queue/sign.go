package queue

import (
	"crypto/sha256"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// A Signer signs pods with the content of their claims.
type Signer struct {
	// Key is the key of the signatures.
	Key string
	// Claims finds the claims of pods.
	Claims *claims.Claims
	// Controllers reports whether a controller of a driver may have to allocate one of the claims.
	Controllers interface {
		DependsOnController(claims []*resourceapi.ResourceClaim) bool
	}
}

// Sign returns the signature of a pod whose claims were created from templates. Pods with the same signature request
// the same devices.
//
// A pod is not signed if its claims are missing or allocated, or if other pods may use them as well: then the nodes of
// the previous pod may be wrong for it. Pods without claims need no signature here.
func (s Signer) Sign(pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil, nil
	}
	for i := range pod.Spec.ResourceClaims {
		if pod.Spec.ResourceClaims[i].ResourceClaimTemplateName == nil {
			return nil, notSigned("claim %s may be used by other pods", pod.Spec.ResourceClaims[i].Name)
		}
	}
	wanted, err := s.Claims.Of(pod)
	if err != nil {
		return nil, notSigned("%v", err)
	}
	if s.Controllers.DependsOnController(wanted) {
		return nil, notSigned("a controller may have to allocate a claim")
	}
	content := sha256.New()
	for _, claim := range wanted {
		if claim.Status.Allocation != nil {
			return nil, notSigned("claim %s is allocated", klog.KObj(claim))
		}
		if !metav1.IsControlledBy(claim, pod) { // The claim was created for a PodGroup.
			return nil, notSigned("claim %s may be used by other pods", klog.KObj(claim))
		}
		spec, err := claim.Spec.Marshal()
		if err != nil {
			return nil, kube.Failed(fmt.Errorf("sign claim %s: %w", klog.KObj(claim), err))
		}
		fmt.Fprintf(content, "%d:", len(spec))
		content.Write(spec)
	}
	return []fwk.SignFragment{{Key: s.Key, Value: content.Sum(nil)}}, nil
}

// notSigned returns the status of a pod that cannot be batched.
func notSigned(format string, args ...any) *fwk.Status {
	return kube.New(fwk.Unschedulable, "the pod is not batched: "+fmt.Sprintf(format, args...))
}
