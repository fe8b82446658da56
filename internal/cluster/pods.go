package cluster

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/informer"
	"github.com/quartermaster-dra/quartermaster/internal/kube/podutil"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// PodsByClaim is the index of pods by their claims.
const PodsByClaim = "quartermasterPodsByClaim"

// indexPods makes the ledger keep the allocations of deleted claims while pods run with them.
func (s *State) indexPods(pods cache.SharedIndexInformer) error {
	var users claims.Claims
	// Without the index, each deleted claim of a PodGroup would need a look at all pods of the
	// cluster.
	if err := users.IndexPods(pods, PodsByClaim); err != nil {
		return err
	}
	s.Ledger.Running = func(claim ledger.ClaimRef, consumers []resourceapi.ResourceClaimConsumerReference) []ledger.Runner {
		return running(&users, claim, consumers)
	}
	return nil
}

// PodChanged handles an event about a pod: the devices of deleted claims are free once their pods have ended. A deletion may show a
// pod that had ended as running, or as waiting if the watch has missed the rest. An update of a pod that still waits may be late, and
// says nothing: the ledger may already keep devices for the pod, because the informer's store shows it on its node.
func (s *State) PodChanged(e informer.Event[v1.Pod]) {
	if e.After == nil || e.Before != nil && isRunning(e.Before) && !isRunning(e.After) {
		s.Freed(s.Ledger.PodEnded(e.Latest().UID))
	}
}

// isRunning reports whether a pod is on a node and has not ended.
func isRunning(pod *v1.Pod) bool { return pod.Spec.NodeName != "" && !podutil.IsPodTerminal(pod) }

// isPrepared reports whether the kubelet is known to have prepared the claims of a pod: it does
// that before it creates the pod's sandbox.
func isPrepared(pod *v1.Pod) bool {
	_, sandbox := podutil.GetPodCondition(&pod.Status, v1.PodReadyToStartContainers)
	return pod.Status.Phase == v1.PodRunning || sandbox != nil && sandbox.Status == v1.ConditionTrue
}

// running returns the running pods among the consumers of a claim, including members of PodGroups.
func running(users *claims.Claims, claim ledger.ClaimRef, consumers []resourceapi.ResourceClaimConsumerReference) (runners []ledger.Runner) {
	deleted := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		Status:     resourceapi.ResourceClaimStatus{ReservedFor: consumers},
	}
	for _, pod := range users.Consumers(deleted) {
		if isRunning(pod) {
			runners = append(runners, ledger.Runner{Pod: pod.UID, Prepared: isPrepared(pod)})
		}
	}
	return runners
}
