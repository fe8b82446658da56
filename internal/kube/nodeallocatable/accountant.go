package nodeallocatable

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// Status is the part of a pod's status about resources that its devices take of the node.
type Status = []v1.NodeAllocatableResourceClaimStatus

// Devices returns the published device of an allocation, nil if there is none any more.
type Devices func(*resourceapi.DeviceRequestAllocationResult) *resourceapi.Device

// An Accountant asks an instance of the in-tree plugin. It is safe for concurrent use.
type Accountant struct {
	devices Devices

	// mutex guards the world and, because the plugin reads them, the claims of all Accounts.
	mutex  sync.Mutex
	world  *world
	plugin interface {
		fwk.PreFilterPlugin
		fwk.FilterPlugin
	}
}

// New returns the Accountant of a profile.
func New(ctx context.Context, profile fwk.Handle, features feature.Features, devices Devices) (*Accountant, error) {
	// Quartermaster itself decides on the following; claims for extended resources are not in the world.
	features.EnableDRAExtendedResource = false
	features.EnableDRADeviceBindingConditions = false
	features.EnableDRASchedulerFilterTimeout = false

	a := &Accountant{devices: devices, world: &world{SharedDRAManager: profile.SharedDRAManager()}}
	inWorld := &handle{
		Handle: profile, world: a.world,
		// The plugin adds an index to this informer of pods, which only its hints need. It never runs.
		informers: informers.NewSharedInformerFactory(profile.ClientSet(), 0),
	}
	plugin, err := dynamicresources.New(ctx, new(config.DynamicResourcesArgs), inWorld, features)
	if err != nil {
		return nil, fmt.Errorf("make the in-tree plugin that accounts for resources of nodes: %w", err)
	}
	a.plugin = plugin.(*dynamicresources.DynamicResources)
	return a, nil
}

// TakesOfNode reports whether any device of the allocations stands for, or needs, resources of the node.
func (a *Accountant) TakesOfNode(allocations ...*resourceapi.AllocationResult) bool {
	for _, allocation := range allocations {
		for i := range allocation.Devices.Results {
			if device := a.devices(&allocation.Devices.Results[i]); device != nil && len(device.NodeAllocatableResources) > 0 {
				return true
			}
		}
	}
	return false
}

// IsForOnePod reports whether any device of the allocation stands for resources of the node, so that no two pods can use it.
func (a *Accountant) IsForOnePod(allocation *resourceapi.AllocationResult) bool {
	for i := range allocation.Devices.Results {
		if device := a.devices(&allocation.Devices.Results[i]); device != nil {
			for _, takes := range device.NodeAllocatableResources {
				if takes.Mapping != nil {
					return true
				}
			}
		}
	}
	return false
}

// A Claim is a claim of a pod.
type Claim struct {
	Object *resourceapi.ResourceClaim
	// Decided is its allocation, or what is planned for it on any node; nil if the plan depends on the node.
	Decided *resourceapi.AllocationResult
	// Shared is set if Decided is planned for another pod too.
	Shared bool
}

// An Account holds the resources that a pod takes of the nodes that Charge judged, in one attempt to schedule it.
type Account struct {
	accountant *Accountant
	pod        *v1.Pod
	// claims holds copies of the pod's claims, by name, and open those among them whose plan depends on the node.
	claims map[string]*resourceapi.ResourceClaim
	open   []*resourceapi.ResourceClaim
	// decided holds the allocations that do not depend on the node, and forOne the claims among them that no two pods can use.
	decided []*resourceapi.AllocationResult
	forOne  []*resourceapi.ResourceClaim
	// state has the plugin's entry. Charge puts it into the pod's own CycleState.
	state fwk.CycleState
}

// decidedLater stands for allocations that depend on the node. The plugin treats a claim as allocated only if it was so in PreFilter.
var decidedLater = new(resourceapi.AllocationResult)

// Open opens the account of a pod. The status is not nil if the pod can use its claims on no node.
func (a *Accountant) Open(ctx context.Context, pod *v1.Pod, claims []Claim) (*Account, *fwk.Status) {
	if len(pod.Status.NodeAllocatableResourceClaimStatuses) > 0 { // An earlier attempt has left it. It must not count.
		pod = taking(pod, nil)
	}
	account := &Account{accountant: a, pod: pod, claims: make(map[string]*resourceapi.ResourceClaim, len(claims)), state: framework.NewCycleState()}
	for _, claim := range claims {
		object := *claim.Object
		object.Status.Allocation = claim.Decided
		if claim.Decided == nil {
			object.Status.Allocation = decidedLater
			account.open = append(account.open, &object)
		} else {
			account.decided = append(account.decided, claim.Decided)
			if a.IsForOnePod(claim.Decided) {
				account.forOne = append(account.forOne, claim.Object)
			}
		}
		if claim.Shared {
			// The plugin finds other users of a planned claim by other means, in an entry of the PodGroup.
			object.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "another of the group"}}
		}
		account.claims[object.Name] = &object
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.enter(account)
	if _, status := a.plugin.PreFilter(ctx, account.state, pod, nil); !status.IsSkip() { // It skips pods without claims.
		return account, status
	}
	return account, nil
}

// Charge judges whether the node has enough resources for the pod with the given plan, one allocation for each claim without a
// decision, in their order. If it has, cs lets kube-scheduler know when it assumes the pod, and Charge returns the status that the
// pod must have then; it is empty if the pod takes nothing besides what its spec says.
//
// Of several plans for one node, the last one counts that takes something.
func (c *Account) Charge(ctx context.Context, cs fwk.CycleState, node fwk.NodeInfo, plan []resourceapi.AllocationResult) (Status, *fwk.Status) {
	c.accountant.mutex.Lock()
	defer c.accountant.mutex.Unlock()
	if !c.takes(plan) {
		return nil, nil
	}
	c.enter(plan)
	takes, status := c.judge(ctx, c.state, node)
	if status != nil || takes == nil {
		return nil, status
	}
	entry, err := c.state.Read(dynamicresources.Name)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	cs.Write(dynamicresources.Name, entry)
	return takes, nil
}

// Count judges like Charge, and returns the pod with that status. kube-scheduler does not learn of it.
func (c *Account) Count(ctx context.Context, node fwk.NodeInfo, plan []resourceapi.AllocationResult) (*v1.Pod, *fwk.Status) {
	c.accountant.mutex.Lock()
	defer c.accountant.mutex.Unlock()
	if !c.takes(plan) {
		return c.pod, nil
	}
	c.enter(plan)
	state := framework.NewCycleState() // In the account's own, an earlier plan counts if this one takes nothing.
	if _, status := c.accountant.plugin.PreFilter(ctx, state, c.pod, nil); !status.IsSuccess() {
		return nil, status
	}
	takes, status := c.judge(ctx, state, node)
	if status != nil {
		return nil, status
	}
	return taking(c.pod, takes), nil
}

// taking returns a pod as kube-scheduler assumes it: with what its devices take of the node in its status.
func taking(pod *v1.Pod, takes Status) *v1.Pod {
	copied := *pod
	copied.Status.NodeAllocatableResourceClaimStatuses = takes
	return &copied
}

// judge implements Charge with a state of the plugin, in the world that was entered. The mutex must be held.
func (c *Account) judge(ctx context.Context, state fwk.CycleState, node fwk.NodeInfo) (Status, *fwk.Status) {
	if status := c.accountant.plugin.Filter(ctx, state, c.pod, node); !status.IsSuccess() {
		return nil, c.lack(ctx, status, node)
	}
	return takenOf(ctx, state, node.Node().Name), nil
}

// takenOf returns what a pod takes of a node according to the plugin's entry in a state.
func takenOf(ctx context.Context, state fwk.CycleState, node string) Status {
	return dynamicresources.ExtractPodNodeAllocatableResourceClaimStatus(klog.FromContext(ctx), state, node)
}

// enter makes the world that of the account, with a plan. The mutex must be held.
func (c *Account) enter(plan []resourceapi.AllocationResult) {
	for i, claim := range c.open {
		claim.Status.Allocation = &plan[i]
	}
	c.accountant.enter(c)
}

// TakesAlready reports whether devices that do not depend on the node take resources of it.
func (c *Account) TakesAlready() bool { return c.accountant.TakesOfNode(c.decided...) }

// DecidedForOnePod returns the claims that do not depend on the node and that no two pods can use.
func (c *Account) DecidedForOnePod() []*resourceapi.ResourceClaim { return c.forOne }

// takes reports whether any device does, with a plan.
func (c *Account) takes(plan []resourceapi.AllocationResult) bool {
	return c.TakesAlready() || slices.ContainsFunc(plan, func(allocation resourceapi.AllocationResult) bool {
		return c.accountant.TakesOfNode(&allocation)
	})
}
