package whatif

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// question is a pod that needs a node, with all data that does not depend on the node.
type question struct {
	pod      *v1.Pod
	affinity nodeaffinity.RequiredNodeAffinity

	// allocated holds the claims with an allocation, and open those without.
	allocated []allocatedClaim
	open      []*resourceapi.ResourceClaim
	// names maps the pod's names for its claims to theirs.
	names map[string]string
	// takesAlready is set if allocated claims have devices that take resources of the node.
	takesAlready bool
	// made lists the claims that were or would be made from the pod's templates.
	made []v1.PodResourceClaimStatus
	task *allocator.Task
	// extended is set if the pod asks for devices by extended resources: the task then depends on
	// the node.
	extended *extended.Demand
	// asked holds the resources that the pod takes of a node, apart from devices and from resources
	// that devices back. requests includes the latter, for nodes that offer them by device plugin.
	asked, requests room
	// problem is the reason why no node fits, nil if some may.
	problem error
	keys    map[*allocator.Task]findings
}

// allocatedClaim is an allocated claim, which restricts the nodes of a pod.
type allocatedClaim struct {
	claim *resourceapi.ResourceClaim
	nodes *nodeaffinity.NodeSelector // nil for all
	// skips is set if a device needs a kubelet that can skip operations for it.
	skips bool
}

func skipsNodeOperations(allocation *resourceapi.AllocationResult) bool {
	return slices.ContainsFunc(allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return len(r.SkipNodeOperations) > 0
	})
}

// ask determines what a pod needs.
func (s *Snapshot) ask(pod *v1.Pod) *question {
	if len(pod.Status.NodeAllocatableResourceClaimStatuses) > 0 { // An earlier attempt has left it, and the scheduler removes it.
		clean := *pod
		clean.Status.NodeAllocatableResourceClaimStatuses = nil
		pod = &clean
	}
	q := &question{
		pod: pod, affinity: nodeaffinity.GetRequiredNodeAffinity(pod),
		names: make(map[string]string), keys: make(map[*allocator.Task]findings),
	}
	resources := extended.Of(pod, (*classes)(s))
	if q.problem = s.unreadClasses(resources); q.problem != nil {
		return q
	}
	backedBy := make(map[v1.ResourceName]bool)
	for _, resource := range extended.Backed(resources) {
		backedBy[resource.Name] = true
	}
	q.asked, q.requests = takenBy(pod, backedBy), takenBy(pod, nil)
	seen := make(map[string]bool)
	for i := range pod.Spec.ResourceClaims {
		if q.problem = s.addClaim(q, &pod.Spec.ResourceClaims[i], seen); q.problem != nil {
			return q
		}
	}
	if len(backedBy) > 0 {
		q.extended = extended.NewDemand(pod, resources, s.leftOver(pod))
		if claim := q.extended.Found(); claim != nil {
			if q.problem = s.addExisting(q, claim); q.problem != nil {
				return q
			}
		}
		q.extended.Prepare(q.open, s.solver.Prepare, true)
		return q
	}
	if len(q.open) > 0 {
		q.task = s.solver.Prepare(q.open)
		q.problem = q.task.Err()
	}
	return q
}

// addClaim adds a claim of the pod, unless it was added already: a pod may refer to a claim twice.
func (s *Snapshot) addClaim(q *question, reference *v1.PodResourceClaim, seen map[string]bool) error {
	claim, err := s.claimFor(q.pod, reference)
	if err != nil || claim == nil {
		return err
	}
	if reference.ResourceClaimTemplateName != nil {
		q.made = append(q.made, v1.PodResourceClaimStatus{Name: reference.Name, ResourceClaimName: &claim.Name})
	}
	q.names[reference.Name] = claim.Name
	if seen[claim.Name] {
		return nil
	}
	seen[claim.Name] = true
	return s.addExisting(q, claim)
}

// addExisting adds a claim that exists or would be made.
func (s *Snapshot) addExisting(q *question, claim *resourceapi.ResourceClaim) (err error) {
	switch {
	case claim.DeletionTimestamp != nil:
		return fmt.Errorf("claim %s is being deleted; the pod has to wait until it is gone", claim.Name)
	case claim.Status.Allocation == nil:
		q.open = append(q.open, dra.Defaulted(claim))
		return nil
	}
	if !resourceclaim.IsReservedForPod(q.pod, claim, true) && len(claim.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize {
		return fmt.Errorf("claim %s is reserved for %d consumers, and there cannot be more", claim.Name, len(claim.Status.ReservedFor))
	}
	if err := s.checkShared(q.pod, claim); err != nil {
		return err
	}
	q.takesAlready = q.takesAlready || s.takesOfNode(claim.Status.Allocation, anyResource)
	a := allocatedClaim{claim: claim, skips: skipsNodeOperations(claim.Status.Allocation)}
	if selector := claim.Status.Allocation.NodeSelector; selector != nil {
		if a.nodes, err = nodeaffinity.NewNodeSelector(selector); err != nil {
			return fmt.Errorf("claim %s: the nodes of its allocation cannot be parsed: %w", claim.Name, err)
		}
	}
	q.allocated = append(q.allocated, a)
	return nil
}

// claimFor returns the claim of a pod: the existing one, or the one that would be made from a
// template. It returns nil if the pod needs no claim.
func (s *Snapshot) claimFor(pod *v1.Pod, reference *v1.PodResourceClaim) (*resourceapi.ResourceClaim, error) {
	if name, mustCheckOwner, err := resourceclaim.Name(pod, reference); err == nil {
		if name == nil {
			return nil, nil
		}
		if claim := s.claims.get(pod.Namespace + "/" + *name); claim != nil {
			if mustCheckOwner {
				if err := resourceclaim.IsForPod(pod, claim, true); err != nil {
					return nil, fmt.Errorf("claim %s cannot be used: %w", *name, err)
				}
			}
			return claim, nil
		}
		if reference.ResourceClaimTemplateName == nil {
			what := fmt.Sprintf("claim %s in namespace %s", *name, pod.Namespace)
			return nil, s.absent(resourceClaims, pod.Namespace, what,
				fmt.Errorf("claim %s does not exist in namespace %s; create it first", *name, pod.Namespace))
		}
	}
	if reference.ResourceClaimTemplateName == nil {
		return nil, fmt.Errorf("%s of pod %s names neither a claim nor a template", reference.Name, pod.Name)
	}
	template := s.templates.get(pod.Namespace + "/" + *reference.ResourceClaimTemplateName)
	if template == nil {
		name := *reference.ResourceClaimTemplateName
		return nil, s.absent(resourceTemplates, pod.Namespace, fmt.Sprintf("claim template %s in namespace %s", name, pod.Namespace),
			fmt.Errorf("claim template %s does not exist in namespace %s; create it first", name, pod.Namespace))
	}
	name := s.unusedClaimName(pod.Namespace, pod.Name+"-"+reference.Name)
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: name, UID: types.UID("planned/" + pod.Namespace + "/" + name),
			Labels: template.Spec.Labels, Annotations: template.Spec.Annotations,
		},
		Spec: template.Spec.Spec,
	}
	if pod.UID != "" {
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
	}
	return claim, nil
}

// unusedClaimName returns a name that no claim has, like one that the API server generates. Names
// for other references of the pod cannot collide, because names of references contain no dots.
func (s *Snapshot) unusedClaimName(namespace, name string) string {
	unused := name
	for i := 2; s.claims.get(namespace+"/"+unused) != nil; i++ {
		unused = fmt.Sprintf("%s.%d", name, i)
	}
	return unused
}

// leftOver returns the claim that an earlier attempt made for a pod's extended resources, if it
// exists: under the name that the scheduler gives it, or the name in the pod's status.
func (s *Snapshot) leftOver(pod *v1.Pod) []*resourceapi.ResourceClaim {
	names := []string{extended.NewClaim(pod).Name}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		names = append(names, status.ResourceClaimName)
	}
	for _, name := range names {
		if claim := s.claims.get(pod.Namespace + "/" + name); claim != nil && claims.MadeFor(claim) == pod.UID {
			return []*resourceapi.ResourceClaim{claim}
		}
	}
	return nil
}

// ClaimsOf returns the existing claims of a pod, including the one for extended resources.
func (s *Snapshot) ClaimsOf(pod *v1.Pod) []*resourceapi.ResourceClaim {
	var used []*resourceapi.ResourceClaim
	for name := range resourceclaim.PodClaims(pod) {
		if claim := s.claims.get(pod.Namespace + "/" + name); claim != nil {
			used = append(used, claim)
		}
	}
	return used
}
