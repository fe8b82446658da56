package api

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
func (c *PodSchedulingContext) DeepCopy() *PodSchedulingContext {
	copied := *c
	copied.ObjectMeta = *c.ObjectMeta.DeepCopy()
	copied.Spec.PotentialNodes = slices.Clone(c.Spec.PotentialNodes)
	copied.Status.ResourceClaims = slices.Clone(c.Status.ResourceClaims)
	for i := range copied.Status.ResourceClaims {
		status := &copied.Status.ResourceClaims[i]
		status.UnsuitableNodes = slices.Clone(status.UnsuitableNodes)
	}
	return &copied
}

// DeepCopyObject implements runtime.Object.
func (c *PodSchedulingContext) DeepCopyObject() runtime.Object { return c.DeepCopy() }

// PodSchedulingContextList is a list of contexts.
type PodSchedulingContextList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PodSchedulingContext `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *PodSchedulingContextList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.ListMeta = *l.ListMeta.DeepCopy()
	copied.Items = make([]PodSchedulingContext, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopy()
	}
	return &copied
}
