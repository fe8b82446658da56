package builder

import (
	"errors"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// NoTracker is a scheduler's tracker of claims that knows no more than the informer.
type NoTracker struct{ fwk.ResourceClaimTracker }

// Get implements fwk.ResourceClaimTracker.
func (NoTracker) Get(string, string) (*resourceapi.ResourceClaim, error) {
	return nil, errors.New("not tracked")
}

// AssumeClaimAfterAPICall implements fwk.ResourceClaimTracker.
func (NoTracker) AssumeClaimAfterAPICall(*resourceapi.ResourceClaim) error { return nil }

// Informer is an informer that only keeps its handler, for the events of a test.
type Informer struct {
	cache.SharedInformer
	cache.ResourceEventHandler
}

// AddEventHandler implements cache.SharedInformer.
func (i *Informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.ResourceEventHandler = handler
	return nil, nil
}
