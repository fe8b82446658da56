package quartermaster

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
)

// followEvents sets up retries of pods that this plugin has rejected, after events that may help them.
func (pl *Quartermaster) followEvents(ctx context.Context, pods cache.SharedIndexInformer) (err error) {
	if pl.waiting, err = queue.FollowPods(pods, func(pod types.UID) {
		pl.devices.Changed.Tell(pod)
		pl.state.turns.Forget(pod)
		pl.failures.Forget(pod)
	}); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	factory := pl.handle.SharedInformerFactory()
	pl.waker = queue.NewWaker(klog.FromContext(ctx), func(_ klog.Logger, pods map[string]*v1.Pod) { pl.state.turns.Wake(pods) })
	pl.events = &queue.Events{
		Pods:    pl.waiting,
		Waker:   pl.waker,
		Made:    queue.NewClaimsMade(factory.Core().V1().Pods().Lister(), queue.Delay),
		State:   requeueState{pl},
		Context: queue.NewContext(),
	}
	if err := pl.events.FollowClaims(ctx, factory.Resource().V1().ResourceClaims().Informer()); err != nil {
		return err
	}
	return pl.events.FollowSlices(factory.Resource().V1(), pl.state.HasTaintRules())
}

// EventsToRegister lists the events that may help a pod that this plugin has rejected, except for those that
// followEvents handles, and adds the events that other plugins have registered, for pods of gangs.
func (pl *Quartermaster) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	hints := &Hints{
		Claims: pl.claims, Waiting: pl.events, Legacy: pl.legacy, Solver: pl.solver, Inventory: pl.state.Inventory,
		UsableOn: func(pod *v1.Pod, claim *resourceapi.ResourceClaim, node *v1.Node) bool {
			podClaim, status := pl.checkClaim(pod, claim, nil, nil)
			return status == nil && podClaim.UsableOn(node)
		},
	}
	if pl.features.EnableDRAExtendedResource {
		hints.Extended = pl.extendedResources
	}
	others, err := pl.otherHints(ctx)
	return append(hints.Events(pl.features), others...), err
}

// requeueState implements requeue.State.
type requeueState struct{ pl *Quartermaster }

// RefreshClaim implements requeue.State. It also wakes the pods that wait for the claim's devices to get ready.
func (s requeueState) RefreshClaim(claim *resourceapi.ResourceClaim) {
	s.pl.state.RefreshClaim(claim.Namespace + "/" + claim.Name)
	s.pl.devices.Changed.Tell(claim.UID)
}

// RefreshSlice implements requeue.State.
func (s requeueState) RefreshSlice(name string) { s.pl.state.RefreshSlice(name) }

// RefreshTaintRule implements requeue.State.
func (s requeueState) RefreshTaintRule(name string) { s.pl.state.RefreshTaintRule(name) }

// Pool implements requeue.State.
func (s requeueState) Pool(id inventory.PoolID) *inventory.NodePool { return s.pl.state.Pool(id) }

// PodsUsing implements requeue.State.
func (s requeueState) PodsUsing(namespace, claim string) ([]*v1.Pod, error) {
	return s.pl.claims.Users(namespace, claim)
}

// InUse implements requeue.State.
func (s requeueState) InUse(claim *resourceapi.ResourceClaim) bool { return s.pl.claims.InUse(claim) }

// ConsumerLimit implements requeue.State.
func (s requeueState) ConsumerLimit(claim *resourceapi.ResourceClaim) int {
	return s.pl.consumerLimit(claim)
}

// MadeForPod implements requeue.State.
func (s requeueState) MadeForPod(claim *resourceapi.ResourceClaim) types.UID {
	return extended.OwnerOf(claim)
}
