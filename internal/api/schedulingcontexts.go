package api

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/quartermaster-dra/quartermaster/internal/api/v1alpha"
)

// PotentialNodesMaxSize is the limit of nodes in spec.potentialNodes of a PodSchedulingContext, and in
// unsuitableNodes of each claim.
const PotentialNodesMaxSize = 128

// PodSchedulingContext is the object in which the scheduler and the drivers' controllers negotiate a node for one pod
// (classic mode, KEP-3063). It has the pod's name and is owned by it. v1 lacks it; v1alpha2 and v1alpha3 have it with
// the same fields.
type PodSchedulingContext struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PodSchedulingContextSpec   `json:"spec"`
	Status PodSchedulingContextStatus `json:"status,omitempty"`
}

// PodSchedulingContextSpec is written by the scheduler.
type PodSchedulingContextSpec struct {
	// SelectedNode is the node for which claims should be allocated, "" if none is selected.
	SelectedNode string `json:"selectedNode,omitempty"`
	// PotentialNodes are the nodes that the controllers should check, at most PotentialNodesMaxSize.
	PotentialNodes []string `json:"potentialNodes,omitempty"`
}

// PodSchedulingContextStatus is written by the controllers.
type PodSchedulingContextStatus struct {
	// ResourceClaims has an entry for each claim that a controller has answered about.
	ResourceClaims []ClaimSchedulingStatus `json:"resourceClaims,omitempty"`
}

// ClaimSchedulingStatus is about one claim that waits for its first consumer.
type ClaimSchedulingStatus struct {
	// Name is the name of the pod's reference to the claim (pod.spec.resourceClaims[].name).
	Name string `json:"name,omitempty"`
	// UnsuitableNodes are the potential nodes for which the claim cannot be allocated at the moment.
	UnsuitableNodes []string `json:"unsuitableNodes,omitempty"`
}

// OfClaim returns the status of the claim with the given reference, nil if there is none. c may be nil.
func (c *PodSchedulingContext) OfClaim(reference string) *ClaimSchedulingStatus {
	if c == nil {
		return nil
	}
	i := slices.IndexFunc(c.Status.ResourceClaims, func(s ClaimSchedulingStatus) bool { return s.Name == reference })
	if i < 0 {
		return nil
	}
	return &c.Status.ResourceClaims[i]
}

// DeepCopy returns a copy that shares nothing.
func (c *PodSchedulingContext) DeepCopy() *PodSchedulingContext { return v1alpha.Copy(c) }

// DeepCopyObject implements runtime.Object.
func (c *PodSchedulingContext) DeepCopyObject() runtime.Object { return c.DeepCopy() }

// PodSchedulingContextList is a list of contexts.
type PodSchedulingContextList = v1alpha.List[PodSchedulingContext]

// ClassicAPI is the part of v1alpha2 and v1alpha3 that serves the classic mode, apart from fields of claims and
// classes (conversion.AlphaClaim, conversion.AlphaClass). It is safe for concurrent use.
type ClassicAPI struct{ resources *resources }

// ClassicOf returns the classic API of the server behind a client set. Like Of, it is nil for client sets that cannot
// have it.
func ClassicOf(client kubernetes.Interface) *ClassicAPI {
	c, ok := client.(*clientset)
	if !ok || c.resources.alpha2.client == nil {
		return nil
	}
	return &ClassicAPI{c.resources}
}

// SchedulingContexts is a client for PodSchedulingContexts.
type SchedulingContexts interface {
	Get(context.Context, string, metav1.GetOptions) (*PodSchedulingContext, error)
	List(context.Context, metav1.ListOptions) (*PodSchedulingContextList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Create(context.Context, *PodSchedulingContext, metav1.CreateOptions) (*PodSchedulingContext, error)
	// Update changes the spec, UpdateStatus the status.
	Update(context.Context, *PodSchedulingContext, metav1.UpdateOptions) (*PodSchedulingContext, error)
	UpdateStatus(context.Context, *PodSchedulingContext, metav1.UpdateOptions) (*PodSchedulingContext, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// Contexts returns the client for a namespace; for reading, "" means all namespaces. While the server lacks the
// resource, lists are empty and watches silent.
func (a *ClassicAPI) Contexts(namespace string) SchedulingContexts {
	contexts := kind[PodSchedulingContext, PodSchedulingContextList]{a.resources.served, contextResource}
	return inVersions[struct{}](contexts, versions[PodSchedulingContext, PodSchedulingContextList]{
		V1alpha3: clientOf[PodSchedulingContext](a.resources.alpha3, contexts.name, namespace),
		V1alpha2: clientOf[PodSchedulingContext](a.resources.alpha2, contexts.name, namespace),
	})
}
