package extended

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Demand describes the devices that a pod needs for its extended resources, in one attempt to
// schedule it. The allocation depends on the node: devices back the resources that no device plugin
// offers there. VariantOn is safe for concurrent use.
type Demand struct {
	pod       *v1.Pod
	resources []Resource
	// template is the claim to create, without requests.
	template *resourceapi.ResourceClaim
	// found is the claim to continue with, stale are the claims to delete; see NewDemand.
	found *resourceapi.ResourceClaim
	stale []*resourceapi.ResourceClaim
	// planned is set if found does not exist yet; see Expect.
	planned bool
	// full is the variant for nodes where no device plugin offers any of the resources.
	full *Variant
	// open, prepare and recordable are the arguments of Prepare.
	open       []*resourceapi.ResourceClaim
	prepare    func([]*resourceapi.ResourceClaim) *allocator.Task
	recordable bool

	// mutex protects the fields that Filter writes for several nodes at once.
	mutex sync.Mutex
	// variants is keyed by the kind of node, see kindOf.
	variants map[string]*Variant
	// onNode holds the variants of filtered nodes.
	onNode map[string]*Variant
	// chosen is the variant of the chosen node.
	chosen *Variant
}

// Variant is the work of allocation for one kind of node. Nodes whose device plugins offer the same
// of the pod's resources share one variant, with its task.
type Variant struct {
	// Claim is the claim for extended resources; nil if the node offers all of them.
	Claim *resourceapi.ResourceClaim
	// Mappings says which requests of the claim the containers use, for the pod's status.
	Mappings []v1.ContainerExtendedResourceRequest
	// Claims holds all of the pod's unallocated claims, with the one for extended resources last,
	// and Task allocates them; nil if there are none.
	Claims []*resourceapi.ResourceClaim
	Task   *allocator.Task
	// Unfit is the reason why no node of this kind fits, nil if some may.
	Unfit error
}

// NewDemand returns the demand of a pod. left holds the claims of earlier attempts in the order of
// Made. The first one is reused unless it is being deleted; the others are stale, and the
// pod must wait until they are gone.
func NewDemand(pod *v1.Pod, resources []Resource, left []*resourceapi.ResourceClaim) *Demand {
	d := &Demand{
		pod: pod, resources: resources, template: NewClaim(pod), stale: left,
		variants: make(map[string]*Variant), onNode: make(map[string]*Variant),
	}
	if len(left) > 0 && left[0].DeletionTimestamp == nil {
		d.found, d.stale = left[0], left[1:]
	}
	return d
}

// Make gives the new claim the UID of as, because a plan for the pod's group was made with that
// UID.
func (d *Demand) Make(as *resourceapi.ResourceClaim) { d.template.UID = as.UID }

// Expect makes the pod use a planned claim that does not exist yet but already has an allocation.
// Nodes that would need another claim do not fit the pod.
func (d *Demand) Expect(claim *resourceapi.ResourceClaim) { d.found, d.planned = claim, true }

// Found returns the claim to continue with, from an earlier attempt or from Expect, nil if there is
// none.
func (d *Demand) Found() *resourceapi.ResourceClaim { return d.found }

// Obsolete returns the claims of earlier attempts that must be deleted.
func (d *Demand) StaleClaims() []*resourceapi.ResourceClaim { return d.stale }

// Resources returns the extended resources of the pod, sorted by name.
func (d *Demand) Resources() []Resource { return d.resources }

// Prepare prepares the variant of most nodes: of all of them, unless a device plugin offers some of
// the resources. open holds the pod's unallocated claims, including Found. prepare makes their
// tasks; it is nil if tasks are not needed. recordable reports whether the API server can store the
// field of the pod's status that tells the kubelet about the claim.
func (d *Demand) Prepare(open []*resourceapi.ResourceClaim, prepare func([]*resourceapi.ResourceClaim) *allocator.Task, recordable bool) {
	d.open, d.prepare, d.recordable = open, prepare, recordable
	all := make([]byte, len(d.resources))
	for i, resource := range d.resources {
		all[i] = offered
		if resource.Class != nil {
			all[i] = lacking
		}
	}
	d.full = d.newVariant(all)
	d.variants[string(all)] = d.full
}

// Full returns the variant of nodes where no device plugin offers any of the resources.
func (d *Demand) Full() *Variant { return d.full }

// The kind of a node is a text with one of these characters for each of the pod's extended
// resources.
const (
	offered = '-' // by a device plugin
	lacking = 'd' // devices must back it
)

// kindOf appends the kind of a node. It fails if the node cannot provide a resource.
func (d *Demand) kindOf(kind []byte, allocatable map[v1.ResourceName]int64) ([]byte, error) {
	for _, resource := range d.resources {
		amount, has := allocatable[resource.Name]
		switch {
		case resource.Class != nil && amount == 0:
			kind = append(kind, lacking)
		case resource.Class == nil && !has:
			return nil, fmt.Errorf("the node does not offer %s and no device class stands for it", resource.Name)
		default:
			kind = append(kind, offered)
		}
	}
	return kind, nil
}

// VariantOn returns the variant for a node with these allocatable scalar resources. It fails if the
// node cannot provide a resource, or if the variant is unfit.
func (d *Demand) VariantOn(node string, allocatable map[v1.ResourceName]int64) (*Variant, error) {
	v, _, err := d.On(allocatable)
	if err != nil {
		return nil, err
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.onNode[node] = v
	return v, v.Unfit
}

// On returns the variant, possibly unfit, for nodes with these allocatable scalar resources, and
// their kind. It fails if such nodes cannot provide a resource. Unlike VariantOn, it does not make
// a node eligible for Choose.
func (d *Demand) On(allocatable map[v1.ResourceName]int64) (v *Variant, kind string, err error) {
	var buffer [16]byte
	k, err := d.kindOf(buffer[:0], allocatable)
	if err != nil {
		return nil, "", err
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if v = d.variants[string(k)]; v == nil {
		v = d.newVariant(k)
		d.variants[string(k)] = v
	}
	return v, string(k), nil
}

// newVariant makes the variant for nodes of a kind.
func (d *Demand) newVariant(kind []byte) *Variant {
	var missing []Resource
	for i, resource := range d.resources {
		if kind[i] == lacking {
			missing = append(missing, resource)
		}
	}
	requests := RequestsFor(d.pod, missing)
	v := &Variant{Mappings: requests.Mappings}
	if len(requests.Devices) > 0 {
		v.Claim = d.template.DeepCopy()
		v.Claim.Spec.Devices.Requests = requests.Devices
	}
	v.Claims = append(v.Claims, d.open...)
	if v.Claim != nil && d.found == nil {
		v.Claims = append(v.Claims, v.Claim)
	}
	if len(v.Claims) > 0 && d.prepare != nil {
		v.Task = d.prepare(v.Claims)
	}
	v.Unfit = d.unfit(v, &requests)
	return v
}

// unfit returns why no node of a variant fits, nil if some may.
func (d *Demand) unfit(v *Variant, requests *Requests) error {
	if err := requests.Err(); err != nil {
		return err
	}
	if len(d.stale) > 0 {
		return fmt.Errorf("claim %s (made by an earlier attempt for the pod's extended resources) has to be deleted first",
			klog.KObj(d.stale[0]))
	}
	if d.planned && !asksForSame(d.found, v.Claim) {
		return errors.New("the pod needs other devices for its extended resources on this node than planned for it with its group")
	}
	if d.found != nil && !asksForSame(d.found, v.Claim) {
		return fmt.Errorf("claim %s (made by an earlier attempt for the pod's extended resources) is not what the pod needs on this node",
			klog.KObj(d.found))
	}
	if v.Claim == nil {
		if err := CheckRecorded(d.pod); err != nil {
			return err
		}
	}
	// Otherwise the server would drop the field that tells the kubelet about the claim, and the pod
	// would run without its devices.
	if v.Claim != nil && !d.recordable {
		return fmt.Errorf("devices would have to back the pod's extended resources on this node and the API server is too old for that " +
			"(it has no claims in resource.k8s.io/v1); use a ResourceClaim")
	}
	return nil
}

// CheckRecorded returns why a pod cannot run where no devices back its extended resources, nil if it can. The claim that an earlier
// attempt has recorded in the pod's status stays there, and the kubelet waits for it.
func CheckRecorded(pod *v1.Pod) error {
	recorded := pod.Status.ExtendedResourceClaimStatus
	if recorded == nil {
		return nil
	}
	return fmt.Errorf("no devices would back the pod's extended resources here but an earlier attempt has recorded claim %s for them in its status "+
		"and the API server does not let that be undone; the pod needs a node and a device class for that; otherwise delete it and create it again", recorded.ResourceClaimName)
}

// asksForSame reports whether an existing claim has the same spec as the wanted one.
func asksForSame(existing, wanted *resourceapi.ResourceClaim) bool {
	return wanted != nil && quantity.DeepEqual(&existing.Spec, &wanted.Spec)
}

// Choose selects the variant of a node. It fails if VariantOn was not called for the node.
func (d *Demand) Choose(node string) (*Variant, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.chosen = d.onNode[node]; d.chosen == nil {
		return nil, fmt.Errorf("node %s was chosen for the pod but not checked for devices for its extended resources; trying again", node)
	}
	return d.chosen, nil
}

// Chosen returns the variant of the chosen node, nil if no node is chosen.
func (d *Demand) Chosen() *Variant { return d.chosen }

// Leave undoes Choose. It reports whether a variant was chosen.
func (d *Demand) Leave() bool {
	was := d.chosen != nil
	d.chosen = nil
	return was
}

// InPodsWords rewords a reason in terms of the pod's extended resources. The user does not know of
// the claim, which usually does not even exist.
func (v *Variant) InPodsWords(reason string) string {
	if v.Claim == nil {
		return reason
	}
	claim := v.Claim.Namespace + "/" + v.Claim.Name
	for _, mapping := range v.Mappings {
		reason = strings.ReplaceAll(reason, fmt.Sprintf("claim %s request %s:", claim, mapping.RequestName),
			fmt.Sprintf("extended resource %s of container %s:", mapping.ResourceName, mapping.ContainerName))
	}
	reason = strings.ReplaceAll(reason, "claim "+claim, "the pod's extended resources")
	return strings.ReplaceAll(reason, claim, "the pod's extended resources")
}
