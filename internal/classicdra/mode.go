package classicdra

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/internal/api"
	"github.com/quartermaster-dra/quartermaster/internal/api/conversion"
	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/write"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra/negotiation"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
)

// Scheduler gives access to one profile of the scheduler.
type Scheduler struct {
	Claims  *podclaims.Claims
	Classes negotiation.ClassLister
	Nodes   corelisters.NodeLister
	// Waiting holds the pods that it has rejected, and Waker moves them back to the queue.
	Waiting *queue.Pods
	Waker   *queue.Waker
	// Asker asks the server whether a pod is bound.
	Asker write.Asker
}

// Mode handles claims of older servers for one profile of the scheduler. It is safe for concurrent use.
type Mode struct {
	scheduler Scheduler
	// negotiator and writer are nil if no controller allocates claims.
	negotiator *negotiation.Negotiator
	writer     *negotiation.Writer
	// resolver is nil if claims contain their requests.
	resolver Resolver
}

// For returns the mode for the server behind a client set, nil if the server has v1 of everything. Its goroutines end
// with the context.
func For(ctx context.Context, client kubernetes.Interface, scheduler Scheduler) (*Mode, error) {
	api, resolver := api.ClassicOf(client), api.ResolverOf(client)
	if api == nil && resolver == nil {
		return nil, nil
	}
	mode := &Mode{scheduler: scheduler}
	if resolver != nil {
		mode = NewResolving(scheduler, resolver)
	}
	if api == nil {
		return mode, nil
	}
	err := mode.negotiate(ctx, api, func(namespace string) negotiation.ClaimClient {
		return client.ResourceV1().ResourceClaims(namespace)
	})
	return mode, err
}

// NewNegotiating returns the mode for servers with claims that controllers may allocate.
func NewNegotiating(ctx context.Context, scheduler Scheduler, api negotiation.API, claims func(namespace string) negotiation.ClaimClient) (*Mode, error) {
	mode := &Mode{scheduler: scheduler}
	return mode, mode.negotiate(ctx, api, claims)
}

func (m *Mode) negotiate(ctx context.Context, api negotiation.API, claims func(namespace string) negotiation.ClaimClient) (err error) {
	m.writer = &negotiation.Writer{Claims: claims, Asker: m.scheduler.Asker}
	m.negotiator, err = negotiation.NewNegotiator(api, m.writer, m.scheduler.Waiting, m.contextChanged)
	if err == nil {
		go m.negotiator.Run(ctx)
	}
	return err
}

// negotiates reports whether controllers may allocate claims.
func (m *Mode) negotiates() bool { return m != nil && m.negotiator != nil }

// Allocates reports whether a controller has allocated a claim, and has to deallocate it.
func (m *Mode) Allocates(claim *resourceapi.ResourceClaim) bool {
	return m.negotiates() && claim.Status.Allocation != nil && conversion.AlphaClaimOf(claim).Allocator == conversion.ByController
}

// DependsOnController reports whether a controller may still have to allocate one of the claims. The scheduler does
// not know which nodes suit it.
func (m *Mode) DependsOnController(claims []*resourceapi.ResourceClaim) bool {
	if !m.negotiates() {
		return false
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil && conversion.AlphaClaimOf(claim).Allocator != conversion.ByScheduler {
			return true
		}
	}
	return false
}

// DependsOnClass reports whether a change of a class matters to a pod because of a controller's claim.
func (m *Mode) DependsOnClass(pod *v1.Pod, class string) bool {
	if !m.negotiates() {
		return false
	}
	claims, err := m.scheduler.Claims.Of(pod)
	if err != nil {
		return false
	}
	for _, claim := range claims {
		if negotiation.DependsOn(claim, class) {
			return true
		}
	}
	return false
}

// referenceTo returns the pod's first reference to a claim.
func referenceTo(pod *v1.Pod, claim string) string {
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil && *name == claim {
			return pod.Spec.ResourceClaims[i].Name
		}
	}
	return ""
}
