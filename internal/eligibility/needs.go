package eligibility

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra"
)

// Needs are a pod's claims and the extended resources that devices may back. Its methods look up the present state. For files, and for
// clusters that do not run this scheduler, package whatif does the same without informers.
type Needs struct {
	Pod *v1.Pod
	// Resources are the extended resources in the requests of its containers (KEP-5004); nil without the feature.
	Resources []extended.Resource

	of *Finder
}

// A Finder looks up what pods need. It is safe for concurrent use.
type Finder struct {
	// Claims finds the claims of pods.
	Claims *podclaims.Claims
	// Classes finds the classes of extended resources, and Stored the claims that were made for them; Classes is nil without the feature.
	Classes fwk.DeviceClassResolver
	Stored  cache.Indexer
	// Controllers handles claims that controllers of drivers allocate; nil stands for a server that serves all resources in v1.
	Controllers Controllers
}

// Controllers separates claims that controllers of drivers allocate (KEP-3063). See classicdra.Mode, which implements it.
type Controllers interface {
	Split(*v1.Pod, []*resourceapi.ResourceClaim) ([]*resourceapi.ResourceClaim, *classicdra.Attempt, *fwk.Status)
	extended.Divider
	DependsOnClass(pod *v1.Pod, class string) bool
	DependsOnController([]*resourceapi.ResourceClaim) bool
	Resolved([]*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim
}

// controllers returns the Controllers of a finder, never nil.
func (f *Finder) controllers() Controllers {
	if f.Controllers == nil {
		return (*classicdra.Mode)(nil)
	}
	return f.Controllers
}

// Of returns what a pod needs.
func (f *Finder) Of(pod *v1.Pod) *Needs {
	needs := &Needs{Pod: pod, of: f}
	if f.Classes != nil {
		needs.Resources = extended.Of(pod, f.Classes)
	}
	return needs
}

// MayHaveDevices reports whether a pod of another scheduler may get devices; see Needs.MayHaveDevices.
func (f *Finder) MayHaveDevices(pod *v1.Pod) bool { return f.Of(pod).MayHaveDevices() }

// Any reports whether the pod may need devices: it refers to claims, or a class stands for a resource that it requests, or did when a claim
// was recorded in its status.
func (n *Needs) Any() bool {
	return len(n.Pod.Spec.ResourceClaims) > 0 || n.Backed() || n.Recorded() != nil
}

// Recorded returns an error if the status of the pod names a claim for extended resources: the kubelet insists on that claim.
func (n *Needs) Recorded() error { return extended.CheckRecorded(n.Pod) }

// MayHaveDevices is Any for pods of other schedulers, which may know classes that this one does not know yet.
func (n *Needs) MayHaveDevices() bool {
	return len(n.Pod.Spec.ResourceClaims) > 0 || len(n.Resources) > 0
}

// Backed reports whether a class stands for an extended resource that the pod requests.
func (n *Needs) Backed() bool { return extended.AnyBacked(n.Resources) }

// Claims returns the claims that the pod refers to, each once. The error says why the pod cannot be scheduled for now.
func (n *Needs) Claims() ([]*resourceapi.ResourceClaim, error) { return n.of.Claims.Of(n.Pod) }

// Split returns those of the pod's claims that this scheduler allocates, and the attempt for those that controllers of their drivers
// allocate, nil if there are none (KEP-3063). The status says why no node is possible for now.
func (n *Needs) Split(claims []*resourceapi.ResourceClaim) (ours []*resourceapi.ResourceClaim, others *classicdra.Attempt, status *fwk.Status) {
	return n.of.controllers().Split(n.Pod, claims)
}

// Divide is Split without an attempt: usable reports whether the claims that controllers allocate can be used on a node, or may be
// allocated there; it is nil if there are none.
func (n *Needs) Divide(claims []*resourceapi.ResourceClaim) (ours []*resourceapi.ResourceClaim, usable func(*v1.Node) bool, err error) {
	return n.of.controllers().Divide(n.Pod, claims)
}

// Made returns the claims that earlier attempts made for the extended resources, the one to continue with first.
func (n *Needs) Made() ([]*resourceapi.ResourceClaim, error) {
	return extended.Made(n.Pod, n.of.Stored, n.of.Claims.Claim)
}

// ToMake returns the claim that a scheduler will make for the extended resources, with the UID of the pod and without a name; nil if there
// is none to make.
func (n *Needs) ToMake() *resourceapi.ResourceClaim {
	backed := extended.Backed(n.Resources)
	if len(backed) == 0 {
		return nil
	}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Pod.Namespace, UID: n.Pod.UID},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: extended.RequestsFor(n.Pod, backed).Devices}},
	}
}

// Ours returns the claims that this scheduler allocates for the pod: those that the pod refers to, and the one for extended resources, which
// may still have to be made; nil if there is none. controlled reports whether controllers of drivers allocate others. The error says why
// the pod cannot be scheduled for now.
func (n *Needs) Ours() (ours []*resourceapi.ResourceClaim, backing *resourceapi.ResourceClaim, controlled bool, err error) {
	claims, err := n.Claims()
	if err != nil {
		return nil, nil, false, err
	}
	ours, others, err := n.Divide(claims)
	if err != nil || !n.Backed() {
		return ours, nil, others != nil, err
	}
	made, err := n.Made()
	if err != nil {
		return nil, nil, false, err
	}
	if backing = n.ToMake(); len(made) > 0 && made[0].DeletionTimestamp == nil {
		backing = made[0]
	}
	return ours, backing, others != nil, nil
}

// HasBacking reports whether a claim that was made for the extended resources of a pod has devices.
func (f *Finder) HasBacking(namespace string, pod types.UID) bool {
	if f.Classes == nil {
		return false
	}
	made, _ := extended.Made(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: pod}}, f.Stored, f.Claims.Claim)
	return slices.ContainsFunc(made, func(claim *resourceapi.ResourceClaim) bool { return claim.Status.Allocation != nil })
}

// MayBeMetBy reports whether a device plugin offers some of the extended resources that devices may back on a node, so that the pod may need
// fewer devices there.
func (n *Needs) MayBeMetBy(node *v1.Node) bool {
	return slices.ContainsFunc(n.Resources, func(r extended.Resource) bool {
		offered := node.Status.Allocatable[r.Name]
		return r.Class != nil && !offered.IsZero()
	})
}

// All returns all claims of the pod, also those made for extended resources. Claims that are gone are left out.
func (n *Needs) All() []*resourceapi.ResourceClaim {
	claims, _ := n.Claims()
	made, _ := n.Made()
	return n.of.controllers().Resolved(append(claims[:len(claims):len(claims)], made...))
}

// DependsOnClass reports whether a class matters to the pod because of a controller's claim, or because it stands for a resource that the pod
// requests, or did before it changed.
func (n *Needs) DependsOnClass(before, class *resourceapi.DeviceClass) bool {
	if n.of.controllers().DependsOnClass(n.Pod, class.Name) {
		return true
	}
	return n.of.Classes != nil && (extended.AsksFor(n.Pod, class) || before != nil && extended.AsksFor(n.Pod, before))
}

// DependsOnController reports whether a controller may still have to allocate one of the claims.
func (n *Needs) DependsOnController(claims []*resourceapi.ResourceClaim) bool {
	return n.of.controllers().DependsOnController(claims)
}
