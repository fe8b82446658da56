package quartermaster

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/nodecache"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// extendedDemand is what an attempt knows about the pod's extended resources.
type extendedDemand struct {
	pod       *v1.Pod
	resources []extendedResource
	// template is the claim to create, without requests.
	template *resourceapi.ResourceClaim
	// found is the claim that an earlier attempt has left, nil if there is none. It is
	// among the claims of the cycle as well.
	found *podClaim
	// obsolete are left over, too, and only good for being deleted. Until they are, the pod
	// has to wait.
	obsolete []*resourceapi.ResourceClaim
	// full is for nodes where no device plugin offers any of the resources.
	full *variant

	// mutex protects what Filter writes for several nodes at once.
	mutex sync.Mutex
	// variants by which of the resources devices have to serve, see kindOf.
	variants map[string]*variant
	// onNode has the variants of nodes that were filtered.
	onNode map[string]*variant
	// chosen is the variant of the node that was chosen.
	chosen *variant
}

// variant is what has to be allocated on nodes of one kind. Nodes that offer the same of
// the pod's resources by device plugin share one, with its task.
type variant struct {
	// claim is the one for extended resources; nil if the node offers all of them.
	claim    *resourceapi.ResourceClaim
	mappings []v1.ContainerExtendedResourceRequest
	// claims are all of the pod without allocation, that for extended resources last, and
	// task allocates them; nil if there are none.
	claims []*resourceapi.ResourceClaim
	task   *allocator.Task
	// known says which nodes have devices for the task; nil if nothing is known.
	known *nodecache.Answer
	// unfit is why no node of this kind will do, nil if some may.
	unfit *fwk.Status
}

// demandExtended begins with the extended resources of a pod. It adds the claim that an
// earlier attempt has left to those of the cycle.
func (pl *Quartermaster) demandExtended(cs fwk.CycleState, c *cycle, pod *v1.Pod, resources []extendedResource) *fwk.Status {
	if !servedByClass(resources) {
		noteUnserved(cs, resources)
		return nil
	}
	pl.scoring.needed.Store(true)
	c.extended = &extendedDemand{
		pod: pod, resources: resources, template: newExtendedClaim(pod),
		variants: make(map[string]*variant), onNode: make(map[string]*variant),
	}
	existing, err := pl.existingExtendedClaims(pod)
	if err != nil {
		return failed(err)
	}
	if len(existing) == 0 {
		return nil
	}
	if existing[0].DeletionTimestamp != nil {
		c.extended.obsolete = existing
		return nil
	}
	c.extended.obsolete = existing[1:]
	found, status := pl.checkClaim(pod, existing[0], nil)
	if status != nil {
		return status
	}
	found.special = &specialClaim{created: true}
	c.extended.found = found
	c.claims = append(c.claims, found)
	return nil
}

// prepareExtended makes the variant that most nodes have, all of them unless a device
// plugin offers something somewhere.
func (pl *Quartermaster) prepareExtended(c *cycle) *fwk.Status {
	all := make([]byte, len(c.extended.resources))
	for i, resource := range c.extended.resources {
		all[i] = offered
		if resource.class != nil {
			all[i] = lacking
		}
	}
	c.extended.full = pl.newVariant(c, all)
	c.extended.variants[string(all)] = c.extended.full
	c.pod.wants(c.extended.full.claims, c.extended.full.task)
	c.pod.wantsExtended(c.extended)
	if task := c.extended.full.task; task != nil {
		if err := task.Err(); err != nil {
			return waiting("%v", err)
		}
		pl.prepareScore(c, task)
	}
	return nil
}

// The kind of a node has one of these for each of the pod's extended resources.
const (
	offered = '-' // by a device plugin
	lacking = 'd' // devices have to serve it
)

// kindOf appends the kind of a node. It fails if a resource is not to be had there.
func (e *extendedDemand) kindOf(kind []byte, nodeInfo fwk.NodeInfo) ([]byte, *fwk.Status) {
	scalars := nodeInfo.GetAllocatable().GetScalarResources()
	for _, resource := range e.resources {
		allocatable, has := scalars[resource.name]
		switch {
		case resource.class != nil && allocatable == 0:
			kind = append(kind, lacking)
		case resource.class == nil && !has:
			return nil, waiting("the node does not offer %s, and no device class stands for it", resource.name)
		default:
			kind = append(kind, offered)
		}
	}
	return kind, nil
}

// variantOn returns the variant for a node.
func (pl *Quartermaster) variantOn(c *cycle, nodeInfo fwk.NodeInfo) (*variant, *fwk.Status) {
	e := c.extended
	var buffer [16]byte
	kind, status := e.kindOf(buffer[:0], nodeInfo)
	if status != nil {
		return nil, status
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	v := e.variants[string(kind)]
	if v == nil {
		v = pl.newVariant(c, kind)
		e.variants[string(kind)] = v
	}
	e.onNode[nodeInfo.Node().Name] = v
	return v, v.unfit
}

// filterVariant is filter for pods with extended resources.
func (pl *Quartermaster) filterVariant(ctx context.Context, c *cycle, nodeInfo fwk.NodeInfo) *fwk.Status {
	v, status := pl.variantOn(c, nodeInfo)
	if status != nil {
		return status
	}
	status = pl.filterTask(ctx, c, v.task, v.known, nodeInfo.Node())
	if status.Code() == fwk.UnschedulableAndUnresolvable {
		return waiting("%s", v.inPodsWords(status.Message()))
	}
	return status
}

// newVariant works out what has to be allocated on nodes of a kind.
func (pl *Quartermaster) newVariant(c *cycle, kind []byte) *variant {
	e := c.extended
	var missing []extendedResource
	for i, resource := range e.resources {
		if kind[i] == lacking {
			missing = append(missing, resource)
		}
	}
	requests := requestsFor(e.pod, missing)
	v := &variant{mappings: requests.mappings}
	if len(requests.requests) > 0 {
		v.claim = e.template.DeepCopy()
		v.claim.Spec.Devices.Requests = requests.requests
	}
	for _, podClaim := range c.unallocated() {
		v.claims = append(v.claims, podClaim.claim)
	}
	if v.claim != nil && e.found == nil {
		v.claims = append(v.claims, v.claim)
	}
	if len(v.claims) > 0 {
		v.task = pl.solver.Prepare(v.claims)
	}
	if v.unfit = e.unfit(v, &requests); v.unfit == nil {
		v.unfit = pl.recordable(v)
	}
	return v
}

// unfit returns why no node of a variant will do, nil if some may.
func (e *extendedDemand) unfit(v *variant, requests *deviceRequests) *fwk.Status {
	if why := requests.tooMany(); why != "" {
		return waiting("%s", why)
	}
	if len(e.obsolete) > 0 {
		return waiting("claim %s, which an earlier attempt made for the pod's extended resources, has to be deleted first",
			klog.KObj(e.obsolete[0]))
	}
	if e.found != nil && !asksForSame(e.found.claim, v.claim) {
		return waiting("claim %s, which an earlier attempt made for the pod's extended resources, is not what the pod needs on this node",
			klog.KObj(e.found.claim))
	}
	return nil
}

// chooseVariant makes the variant of the chosen node what the cycle has to allocate.
func (c *cycle) chooseVariant(nodeName string) error {
	e := c.extended
	if e == nil {
		return nil
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.chosen = e.onNode[nodeName]; e.chosen == nil {
		return fmt.Errorf("node %s was chosen for the pod, but nobody asked whether it has devices for its extended resources; trying again", nodeName)
	}
	c.task = e.chosen.task
	if e.chosen.claim != nil && e.found == nil {
		c.claims = append(c.claims, &podClaim{claim: e.chosen.claim, special: &specialClaim{}})
	}
	return nil
}

// leaveVariant is the opposite of chooseVariant. A claim that was written stays, so that
// nobody takes it for one that is not.
func (c *cycle) leaveVariant() {
	if c.extended == nil || c.extended.chosen == nil {
		return
	}
	c.extended.chosen, c.task = nil, nil
	c.claims = slices.DeleteFunc(c.claims, func(claim *podClaim) bool {
		return claim.special != nil && claim != c.extended.found
	})
}
