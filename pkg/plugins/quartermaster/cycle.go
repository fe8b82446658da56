package quartermaster

import (
	"errors"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/bindingcondition"
	"github.com/quartermaster-dra/quartermaster/internal/commitrunner"
	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
	"github.com/quartermaster-dra/quartermaster/internal/legacy"
	"github.com/quartermaster-dra/quartermaster/internal/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/nodereason"
	"github.com/quartermaster-dra/quartermaster/internal/noderoom"
	"github.com/quartermaster-dra/quartermaster/internal/nodescore"
	"github.com/quartermaster-dra/quartermaster/internal/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/requeue"
	"github.com/quartermaster-dra/quartermaster/internal/usableclaim"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/plugins/gangplacement/placed"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

const cycleKey fwk.StateKey = Name

// cycle is what the plugin knows about a pod during one attempt to schedule it.
// PreFilter makes it. The phases after Filter run one after the other.
type cycle struct {
	// pod is where a rejection is noted.
	pod *requeue.Pod
	// rejected is set once Filter has said no to a node.
	rejected atomic.Bool
	// undecided is set once Filter could not say whether a node will do, because an expression
	// was still being evaluated. The pod is tried again when that is done.
	undecided atomic.Bool
	// claims of the pod, each once, in the order of pod.spec.resourceClaims.
	claims []*podClaim
	// task allocates the claims for which nothing is decided yet; nil if there are none.
	task *allocator.Task
	// extended is nil unless a device class stands for resources that the pod asks for. If
	// it is set, the task depends on the node, and is here from Reserve on.
	extended *extendedresource.Demand
	// leftOver is the claim for these that an earlier attempt has left, or that is in flight for the pod's gang; it is among
	// the claims as well. nil if there is none.
	leftOver *podClaim

	// group is the state of the pod's group while that is tried as a whole, else nil; uid
	// is the pod's.
	group *groupCycle
	uid   types.UID

	// dryRun is set if nothing comes of this attempt: it is tried whether the pod's group would fit without others.
	dryRun *groupRun

	// legacy has the claims that controllers of their drivers allocate; they are not among
	// the others. nil if there are none.
	legacy *legacy.Attempt
	// asksDrivers is set if the attempt ends because the pod has to wait for these.
	asksDrivers bool

	// attempt commits the claims, from Reserve on; nil before that.
	attempt *commitrunner.Attempt

	// takes is what the pod takes of its node besides devices.
	takes noderoom.Room

	// place is where it is being tried whether the pod's group fits.
	place placed.Place

	// failed is how often devices have failed to get ready for the pod, nil if none has.
	failed map[bindingcondition.Device]int

	// usage is what is in use in the eyes of the pod: more than in the ledger if devices of some pools are kept
	// for others. kept says so of pools, nil if of none.
	usage ledger.View
	kept  func(inventory.PoolID) bool

	// steps are what the searches of Filter may take on all nodes together.
	steps *allocator.Steps
	// evaluation is how long the attempt may wait for selectors to be evaluated.
	evaluation *selector.Budget
	// dryRunSteps are what searches may take for what might be, if others were evicted.
	dryRunSteps *allocator.Steps
	// standing says which claims are in the way for the time being only; see Quartermaster.standing.
	standing     *preemption.Standing
	standingOnce sync.Once
	// awaitsRelease is set if a node will do as soon as claims of pods that have ended are deallocated.
	awaitsRelease atomic.Bool
	// reasons are why nodes have no devices.
	reasons nodereason.Reasons

	// mutex protects what Filter writes for several nodes at once.
	mutex sync.Mutex
	// known says which nodes have devices for the task, or for that of nodes where devices
	// back all extended resources; nil if nothing is known.
	known *nodecache.Answer
	// question is what it answers.
	question *nodecache.Question
	// accepts reports which nodes can be the best for the pod; planning is set if all are to be known, for its gang.
	accepts  func(node string) bool
	planning bool
	// narrowedTo are the nodes that PreFilter named; nil if it named none. narrowedToBest is set
	// if others have devices as well, which are worth more where they are.
	narrowedTo     sets.Set[string]
	narrowedToBest bool
	// scored is set if it matters to Score which devices a node has for the task.
	scored bool
	// found has what the task found first on nodes to be scored: one result for each claim
	// without allocation, in their order.
	found map[string][]resourceapi.AllocationResult
	// plans has the same for nodes on which the pod is to get just that, with its group.
	plans map[string][]resourceapi.AllocationResult
	// objective is what nodes and devices are chosen by, with a strategy.
	objective *allocator.Objective
	strategy  Strategy
	// values has what taking the devices costs on nodes that were scored.
	values map[string]allocator.Value
	// ranking are the nodes that were scored for what they cost, the best first.
	ranking []nodescore.Node
	// unavailable are the allocated claims that kept the pod from some node.
	unavailable map[*podClaim]bool
}

// podClaim is one claim of the pod.
type podClaim = usableclaim.Claim

// Clone implements fwk.StateData. Dry runs share the state: what they change has an entry of its own, see preemption.World.
func (c *cycle) Clone() fwk.StateData { return c }

// unallocated returns the claims that the task is for.
func (c *cycle) unallocated() []*podClaim { return usableclaim.Open(c.claims) }

// open returns the claims themselves that the task is for.
func (c *cycle) open() []*resourceapi.ResourceClaim { return usableclaim.Objects(c.unallocated()) }

// usualTask is the task for most nodes.
func (c *cycle) usualTask() *allocator.Task {
	if c.extended != nil {
		return c.extended.Full().Task
	}
	return c.task
}

// cycleOf returns the state that PreFilter made. It is nil if PreFilter did not
// run for this pod, or found nothing to do.
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
