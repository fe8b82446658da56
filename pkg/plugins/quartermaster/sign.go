package quartermaster

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/batch"
)

// claimsSignature is the key under which a pod is signed with the content of its claims.
const claimsSignature = Name + ".ResourceClaims"

// SignPod lets the scheduler batch pods whose claims were made from templates and ask
// for the same (kubernetes/kubernetes#134986). A batch decides only in which order nodes are tried. Each
// pod still passes through PreFilter and through Filter on its node, with the state of
// devices at that moment, so no event in between can make a batch wrong.
func (pl *Quartermaster) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return batch.Signer{Key: claimsSignature, ClaimsOf: pl.claims.Of, OfController: pl.legacy.DependsOnController}.Sign(pod)
}
