package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/queue"
)

// claimsSignature is the key of the signature of a pod's claims.
const claimsSignature = Name + ".ResourceClaims"

// SignPod lets the scheduler batch pods whose claims were created from templates and request the same devices
// (kubernetes/kubernetes#134986). A batch determines only the order in which nodes are tried. Each pod still passes
// PreFilter and Filter on its node, with the current state of devices, so no event in between can make a batch wrong.
func (pl *Quartermaster) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return queue.Signer{Key: claimsSignature, Claims: pl.claims, Controllers: pl.legacy}.Sign(pod)
}
