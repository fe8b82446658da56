package quartermaster

import (
	"errors"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims/binding"
	extendedresource "github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/classicdra"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/eligibility"
	"github.com/quartermaster-dra/quartermaster/internal/gang/workload"
	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/queue"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

const cycleKey fwk.StateKey = Name

// A cycle is the plugin's state of one attempt to schedule a pod. PreFilter creates it. The phases after Filter run one
// after the other.
type cycle struct {
	// pod is the pod's entry, which records rejections.
	pod *queue.Pod
	// rejected is set once Filter has rejected a node.
	rejected atomic.Bool
	// undecided is set once Filter could not decide about a node, because an expression was still being evaluated. The
	// pod is tried again after the evaluation.
	undecided atomic.Bool
	// claims are the distinct claims of the pod, in the order of pod.spec.resourceClaims.
	claims []*podClaim
	// task allocates the claims without an allocation; nil if there are none.
	task *allocator.Task
	// resources are the extended resources that the pod requests.
	resources []extendedresource.Resource
	// extended is nil unless a device class stands for resources that the pod requests. If extended is set, the task
	// depends on the node, and is nil before Reserve.
	extended *extendedresource.Demand
	// leftOver is the claim for the extended resources that an earlier attempt has left, or that is in flight for the
	// pod's gang; nil if there is none. It is also in claims.
	leftOver *podClaim

	// group is the state of the pod's group while the group is tried as a whole, else nil. uid is the pod's UID.
	group *groupCycle
	uid   types.UID

	// dryRun is set if the whole attempt is a dry run: for the pod's group, or for planning its gang.
	dryRun *preemption.DryRun

	// legacy holds the claims that controllers of their drivers allocate; nil if there are none. They are not in
	// claims.
	legacy *classicdra.Attempt
	// asksDrivers is set if the attempt ends because the pod has to wait for the drivers' controllers.
	asksDrivers bool

	// attempt commits the claims; it is set from Reserve on.
	attempt *commit.Attempt

	// takes is the pod's use of its node besides devices.
	takes noderesources.Room

	// place is the part of the cluster in which the pod's group is tried.
	place workload.Place

	// failed is the number of times that devices failed to get ready for the pod, nil if none has failed.
	failed map[binding.Device]int

	// usage is the usage that the pod must respect: the ledger's, plus devices kept for other pods. kept reports
	// whether any are kept in a pool; it is nil if none are.
	usage ledger.View
	kept  func(inventory.PoolID) bool

	// steps is the budget of Filter's searches on all nodes together.
	steps *allocator.Steps
	// evaluation is the budget of time for evaluating selectors.
	evaluation *selector.Budget
	// dryRunSteps is the budget of searches in dry runs of evictions.
	dryRunSteps *allocator.Steps
	// standing classifies the claims that are in the way only for now; see Quartermaster.standing.
	standing     *preemption.Standing
	standingOnce sync.Once
	// awaitsRelease is set if a node would fit as soon as claims of pods that have ended are deallocated.
	awaitsRelease atomic.Bool
	// reasons are the reasons why nodes have no devices.
	reasons nodes.Reasons

	// mutex guards the fields that Filter writes for several nodes concurrently.
	mutex sync.Mutex
	// known holds the nodes that have devices for the task, or for the task of nodes where devices back all extended
	// resources; nil if nothing is known.
	known *nodecache.Answer
	// question is the question that known answers.
	question *nodecache.Question
	// accepts reports whether a node can be the best for the pod.
	accepts func(node string) bool
	// narrowedTo are the nodes that PreFilter returned; nil if it returned none. narrowedToBest is set if other nodes
	// have devices too, which cost more.
	narrowedTo     sets.Set[string]
	narrowedToBest bool
	// scored is set if Score must know which devices a node has for the task.
	scored bool
	// found holds the first solution on nodes to be scored, by node: one result for each claim without an allocation,
	// in their order.
	found map[string][]resourceapi.AllocationResult
	// plans holds allocations like found, on nodes where the pod must get exactly these, with its group.
	plans map[string][]resourceapi.AllocationResult
	// objective and strategy determine the choice of nodes and devices.
	objective *allocator.Objective
	strategy  Strategy
	// values holds the cost of the devices on scored nodes, by node.
	values map[string]allocator.Value
	// ranking holds the nodes that were scored by cost, the best first.
	ranking []nodes.Node
	// unavailable holds the allocated claims that cannot be used on some node.
	unavailable map[*podClaim]bool
}

// A podClaim is one claim of the pod.
type podClaim = eligibility.Claim

// Clone implements fwk.StateData. Dry runs share the state; their changes are in an entry of their own, see
// preemption.DryRun.
func (c *cycle) Clone() fwk.StateData { return c }

// unallocated returns the claims that the task allocates.
func (c *cycle) unallocated() []*podClaim { return eligibility.Open(c.claims) }

// open returns the claim objects that the task allocates.
func (c *cycle) open() []*resourceapi.ResourceClaim { return eligibility.Objects(c.unallocated()) }

// usualTask returns the task for most nodes.
func (c *cycle) usualTask() *allocator.Task {
	if c.extended != nil {
		return c.extended.Full().Task
	}
	return c.task
}

// cycleOf returns the state that PreFilter stored. It is nil if PreFilter did not run for this pod, or had nothing to
// do.
func cycleOf(cs fwk.CycleState) (*cycle, error) {
	data, err := cs.Read(cycleKey)
	if errors.Is(err, fwk.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, ok := data.(*cycle)
	if !ok {
		return nil, errors.New("the cycle state of plugin " + Name + " was replaced by something else")
	}
	return c, nil
}
