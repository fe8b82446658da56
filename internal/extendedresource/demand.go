package extendedresource

import (
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/internal/amount"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// Demand is what a pod asks of devices by extended resources, in one attempt to schedule it.
// What has to be allocated depends on the node: devices back what no device plugin offers there.
// VariantOn is safe for concurrent use.
type Demand struct {
	pod       *v1.Pod
	resources []Resource
	// template is the claim to create, without requests.
	template *resourceapi.ResourceClaim
	// found is a claim to go on with, obsolete are claims to delete; see NewDemand.
	found    *resourceapi.ResourceClaim
	obsolete []*resourceapi.ResourceClaim
	// planned is set if the claim to go on with does not exist yet; see Expect.
	planned bool
	// full is for nodes where no device plugin offers any of the resources.
	full *Variant
	// open, prepare and recordable are those of Prepare.
	open       []*resourceapi.ResourceClaim
	prepare    func([]*resourceapi.ResourceClaim) *allocator.Task
	recordable func() bool

	// mutex protects what Filter writes for several nodes at once.
	mutex sync.Mutex
	// variants by which of the resources devices have to back, see kindOf.
	variants map[string]*Variant
	// onNode has the variants of nodes that were filtered.
	onNode map[string]*Variant
	// chosen is the variant of the node that was chosen.
	chosen *Variant
}

// Variant is what has to be allocated on nodes of one kind. Nodes that offer the same of
// the pod's resources by device plugin share one, with its task.
type Variant struct {
	// Claim is the one for extended resources; nil if the node offers all of them.
	Claim *resourceapi.ResourceClaim
	// Mappings say which requests of the claim the containers use, for the pod's status.
	Mappings []v1.ContainerExtendedResourceRequest
	// Claims are all of the pod without allocation, that for extended resources last, and
	// Task allocates them; nil if there are none.
	Claims []*resourceapi.ResourceClaim
	Task   *allocator.Task
	// Unfit is why no node of this kind will do, nil if some may.
	Unfit error
}

// NewDemand begins with a pod. Of what earlier attempts have left, ordered as by LeftOver, the
// first claim is gone on with unless it is being deleted; the others are obsolete, and the pod
// has to wait until they are gone.
func NewDemand(pod *v1.Pod, resources []Resource, left []*resourceapi.ResourceClaim) *Demand {
	d := &Demand{
		pod: pod, resources: resources, template: NewClaim(pod), obsolete: left,
		variants: make(map[string]*Variant), onNode: make(map[string]*Variant),
	}
	if len(left) > 0 && left[0].DeletionTimestamp == nil {
		d.found, d.obsolete = left[0], left[1:]
	}
	return d
}

// Make has the claim made under the UID of another one, which a plan for the pod's group has been made with.
func (d *Demand) Make(as *resourceapi.ResourceClaim) { d.template.UID = as.UID }

// Expect has the pod go on with a claim that does not exist yet, but for which there is an allocation already: nodes where
// another one would be needed are none for the pod.
func (d *Demand) Expect(claim *resourceapi.ResourceClaim) { d.found, d.planned = claim, true }

// Found returns the claim to go on with, of an earlier attempt or as expected, nil if there is none.
func (d *Demand) Found() *resourceapi.ResourceClaim { return d.found }

// Obsolete returns the claims of earlier attempts that are only good for being deleted.
func (d *Demand) Obsolete() []*resourceapi.ResourceClaim { return d.obsolete }

// Resources returns the extended resources of the pod, sorted by name.
func (d *Demand) Resources() []Resource { return d.resources }

// Prepare works out what most nodes have to give, all of them unless a device plugin offers
// something somewhere. The open claims are those of the pod without allocation, Found among
// them. prepare makes their tasks, nil if they are of no use, and recordable reports whether the API server may store
// what tells the kubelet about the claim.
func (d *Demand) Prepare(open []*resourceapi.ResourceClaim, prepare func([]*resourceapi.ResourceClaim) *allocator.Task, recordable func() bool) {
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

// The kind of a node, a text, has one of these for each of the pod's extended resources.
const (
	offered = '-' // by a device plugin
	lacking = 'd' // devices have to back it
)

// kindOf appends the kind of a node. It fails if a resource is not to be had there.
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

// VariantOn returns the variant for a node with these allocatable scalar resources. It fails
// if a resource is not to be had there, or if the variant is unfit.
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

// On returns the variant for nodes with these allocatable scalar resources, which may be unfit, and their kind. It fails if a
// resource is not to be had there. The node cannot be chosen by that.
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

// newVariant works out what has to be allocated on nodes of a kind.
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

// unfit returns why no node of a variant will do, nil if some may.
func (d *Demand) unfit(v *Variant, requests *Requests) error {
	if err := requests.Err(); err != nil {
		return err
	}
	if len(d.obsolete) > 0 {
		return fmt.Errorf("claim %s (made by an earlier attempt for the pod's extended resources) has to be deleted first",
			klog.KObj(d.obsolete[0]))
	}
	if d.planned && !asksForSame(d.found, v.Claim) {
		return errors.New("the pod needs other devices for its extended resources on this node than what was planned for it with its group")
	}
	if d.found != nil && !asksForSame(d.found, v.Claim) {
		return fmt.Errorf("claim %s (made by an earlier attempt for the pod's extended resources) is not what the pod needs on this node",
			klog.KObj(d.found))
	}
	// Otherwise the server would drop what tells the kubelet about the claim, and the pod
	// would run without its devices.
	if v.Claim != nil && !d.recordable() {
		return fmt.Errorf("devices would have to back the pod's extended resources on this node which the API server is too old for " +
			"(it has no claims in resource.k8s.io/v1); use a ResourceClaim")
	}
	return nil
}

// asksForSame reports whether a claim that exists asks for what another one would.
func asksForSame(existing, wanted *resourceapi.ResourceClaim) bool {
	return wanted != nil && amount.DeepEqual(&existing.Spec, &wanted.Spec)
}

// Choose makes a node's variant the one that is used. It fails if nobody has asked for that.
func (d *Demand) Choose(node string) (*Variant, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.chosen = d.onNode[node]; d.chosen == nil {
		return nil, fmt.Errorf("node %s was chosen for the pod but nobody asked whether it has devices for its extended resources; trying again", node)
	}
	return d.chosen, nil
}

// Chosen returns the variant of the chosen node, nil if none is.
func (d *Demand) Chosen() *Variant { return d.chosen }

// Leave is the opposite of Choose. It reports whether there was anything to leave.
func (d *Demand) Leave() bool {
	was := d.chosen != nil
	d.chosen = nil
	return was
}
