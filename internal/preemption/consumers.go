package preemption

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// Usage says whether anybody uses a claim.
type Usage int

const (
	// Used : a consumer uses it, or may. An event follows when the consumer ends or the allocation goes.
	Used Usage = iota
	// Unheard : a consumer uses it, but the informer has not shown that consumer yet, or no event will show its end.
	Unheard
	// Abandoned : all consumers are gone.
	Abandoned
)

// isDone reports whether no container of the pod runs or ever will, see claims/write.Ended.
func isDone(pod *v1.Pod) bool {
	_, ended := write.Ended(pod)
	return ended
}

// usage finds out whether anybody uses the claim; departed are the pods that the informer has
// told to have ended. What is known in memory is looked up first: as long as one consumer certainly
// uses the claim, nobody is asked about the others.
// With the answer that all are gone, gone is the evidence, and end has to be called after what follows from that.
func (r *Release) usage(ctx context.Context, claim *resourceapi.ResourceClaim, departed map[types.UID]write.Unbound) (state Usage, gone []write.Unbound, end func(), err error) {
	var ends []func()
	end = func() {
		for _, end := range ends {
			end()
		}
	}
	var unsure []resourceapi.ResourceClaimConsumerReference
	for _, consumer := range claim.Status.ReservedFor {
		switch {
		case dra.IsPodGroup(consumer):
			if r.mayRun(claim.UID) {
				return Used, nil, end, nil
			}
			state, unbound, endOfGroup, err := r.ofGroup(ctx, claim, consumer)
			if err != nil || state != Abandoned {
				return state, nil, end, err
			}
			gone, ends = append(gone, unbound), append(ends, endOfGroup)
		case !dra.IsPod(consumer):
			return Used, nil, end, nil
		default:
			unbound, known := departed[consumer.UID]
			if pod := r.known.Pod(claim.Namespace, consumer.Name); samePod(pod, consumer.UID) {
				if unbound, known = write.Ended(pod); !known {
					return Used, nil, end, nil
				}
			}
			if known {
				gone = append(gone, unbound)
			} else { // A pod of that name with another UID may be the one before.
				unsure = append(unsure, consumer)
			}
		}
	}
	for _, consumer := range unsure {
		state, unbound, err := r.askAbout(ctx, claim.Namespace, consumer)
		if err != nil || state != Abandoned {
			return state, nil, end, err
		}
		gone = append(gone, unbound)
	}
	return Abandoned, gone, end, nil
}

// askAbout asks the API server about a pod. One that is not there may have been deleted without waiting for
// its node (grace period 0), so that its containers may still run: then the claim is left to the controller.
func (r *Release) askAbout(ctx context.Context, namespace string, consumer resourceapi.ResourceClaimConsumerReference) (Usage, write.Unbound, error) {
	ctx, cancel := context.WithTimeout(ctx, write.UndoTimeout)
	defer cancel()
	pod, err := r.writer.Pod(ctx, namespace, consumer.Name)
	none := write.Unbound{}
	switch {
	case err != nil:
		return Used, none, fmt.Errorf("find out whether pod %s/%s (UID %s) is gone: %w", namespace, consumer.Name, consumer.UID, err)
	case !samePod(pod, consumer.UID):
		return Used, none, nil
	}
	unbound, ended := write.Ended(pod)
	if !ended {
		return Unheard, none, nil
	}
	return Abandoned, unbound, nil
}
