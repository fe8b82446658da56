package release

import (
	"context"
	"fmt"
	"slices"

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
	// Used : somebody does, or may. Their end will be told, or that of the claim's allocation.
	Used Usage = iota
	// Unheard : somebody does of whom the informer has not told yet, or of whose end nothing tells.
	Unheard
	// Abandoned : all consumers are gone.
	Abandoned
)

// isDone reports whether no container of the pod runs or ever will, as far as the node has said: it has
// ended, or it is being deleted and was never bound. The API server does not bind a pod that is being
// deleted. That a pod has ended may also be written by others, for a node that does not answer.
func isDone(pod *v1.Pod) bool {
	return podutil.IsPodTerminal(pod) && !anyRuns(pod) || pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}

// anyRuns reports whether the node has said of a container that it runs, and not that it has ended.
func anyRuns(pod *v1.Pod) bool {
	runs := func(container v1.ContainerStatus) bool { return container.State.Running != nil }
	return slices.ContainsFunc(pod.Status.ContainerStatuses, runs) || slices.ContainsFunc(pod.Status.InitContainerStatuses, runs) ||
		slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, runs)
}

// usage finds out whether anybody uses the claim; departed are the pods that the informer has
// told to have ended. What is known in memory is looked up first: as long as one consumer certainly
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
			if r.mayRun(claim.UID) {
				return Used, end, nil
			}
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
		state, err := r.askAbout(ctx, claim.Namespace, consumer)
		if err != nil || state != Abandoned {
			return state, end, err
		}
	}
	return Abandoned, end, nil
}

// askAbout asks the API server about a pod. One that is not there may have been deleted without waiting for
// its node (grace period 0), so that its containers may still run: then the claim is left to the controller.
func (r *Release) askAbout(ctx context.Context, namespace string, consumer resourceapi.ResourceClaimConsumerReference) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, claimwriter.UndoTimeout)
	defer cancel()
	pod, err := podclaims.Live(ctx, r.writer.Client(), namespace, consumer.Name)
	switch {
	case err != nil:
		return Used, fmt.Errorf("find out whether pod %s/%s (UID %s) is gone: %w", namespace, consumer.Name, consumer.UID, err)
	case !samePod(pod, consumer.UID):
		return Used, nil
	case !isDone(pod):
		return Unheard, nil
	default:
		return Abandoned, nil
	}
}
