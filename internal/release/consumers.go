package release

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/quartermaster-dra/quartermaster/internal/claimwriter"
	"github.com/quartermaster-dra/quartermaster/internal/podclaims"
	"github.com/quartermaster-dra/quartermaster/internal/podgroup"
)

// Usage says whether anybody uses a claim.
type Usage int

const (
	// Used : somebody does. Their end will be told.
	Used Usage = iota
	// Unheard : somebody does of whom the informer has not told yet, or of whose end nothing tells.
	Unheard
	// Abandoned : all consumers are gone.
	Abandoned
)

// isDone reports whether no container of the pod runs or ever will: it has ended, or it is being
// deleted and was never bound. The API server does not bind a pod that is being deleted.
func isDone(pod *v1.Pod) bool {
	return podutil.IsPodTerminal(pod) || pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}

// usage finds out whether anybody uses the claim; departed are the pods that the informer has
// told to be gone. What is known in memory is looked up first: as long as one consumer certainly
// uses the claim, nobody is asked about the others.
// With the answer that all are gone, end has to be called after what follows from that.
func (r *Release) usage(ctx context.Context, claim *resourceapi.ResourceClaim, departed sets.Set[types.UID]) (state Usage, end func(), err error) {
	var ends []func()
	end = func() {
		for _, end := range ends {
			end()
		}
	}
	var unsure []resourceapi.ResourceClaimConsumerReference
	for _, consumer := range claim.Status.ReservedFor {
		switch {
		case podgroup.Is(consumer):
			state, endOfGroup, err := r.ofGroup(ctx, claim, consumer)
			if err != nil || state != Abandoned {
				return state, end, err
			}
			ends = append(ends, endOfGroup)
		case consumer.APIGroup != "" || consumer.Resource != "pods":
			return Used, end, nil
		default:
			pod := r.known.Pod(claim.Namespace, consumer.Name)
			switch {
			case samePod(pod, consumer.UID) && !isDone(pod):
				return Used, end, nil
			case !samePod(pod, consumer.UID) && !departed.Has(consumer.UID):
				// A pod of that name with another UID may be the one before.
				unsure = append(unsure, consumer)
			}
		}
	}
	for _, consumer := range unsure {
		alive, err := r.isAlive(ctx, claim.Namespace, consumer)
		if err != nil {
			return Used, end, err
		}
		if alive {
			return Unheard, end, nil
		}
	}
	return Abandoned, end, nil
}

// isAlive asks the API server whether a pod is there and may run.
func (r *Release) isAlive(ctx context.Context, namespace string, consumer resourceapi.ResourceClaimConsumerReference) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, claimwriter.UndoTimeout)
	defer cancel()
	pod, err := podclaims.Live(ctx, r.writer.Client(), namespace, consumer.Name)
	if err != nil {
		return false, fmt.Errorf("find out whether pod %s/%s (UID %s) is gone: %w", namespace, consumer.Name, consumer.UID, err)
	}
	return samePod(pod, consumer.UID) && !isDone(pod), nil
}
