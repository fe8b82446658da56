package described

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/extendedresource"
	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
	"github.com/quartermaster-dra/quartermaster/internal/gang/trial"
	"github.com/quartermaster-dra/quartermaster/internal/usableclaim"
)

// Describer describes pods, in one cycle of kube-scheduler.
type Describer struct {
	// Claims returns the claims of a pod. Its error is why the pod cannot be scheduled for the moment.
	Claims func(*v1.Pod) ([]*resourceapi.ResourceClaim, error)
	// Split is legacy.Mode.Divide. Its error is that of Claims.
	Split func(*v1.Pod, []*resourceapi.ResourceClaim) (ours []*resourceapi.ResourceClaim, others func(*v1.Node) bool, err error)
	// Check returns a claim as the pod can use it. Its error is what keeps it from that on any node.
	Check func(*v1.Pod, *resourceapi.ResourceClaim) (*usableclaim.Claim, error)
	// Extended returns the extended resources of a pod, and LeftOver the claims that attempts to schedule it have made for
	// these, see extendedresource.LeftOver. Recordable is that of extendedresource.Demand.
	Extended   func(*v1.Pod) []extendedresource.Resource
	LeftOver   func(*v1.Pod) ([]*resourceapi.ResourceClaim, error)
	Recordable func() bool
	Nodes      []fwk.NodeInfo

	// offered has what device plugins offer, by node, and somewhere what any of them does; nil as long as nobody asked.
	offered   map[string]map[v1.ResourceName]int64
	somewhere sets.Set[v1.ResourceName]
}

// Describe returns a pod with its claims. The error is why it cannot be scheduled for the moment.
func (d *Describer) Describe(pod *v1.Pod) (planning.Member, error) {
	m := planning.Member{Pod: trial.Pod{Pod: pod}}
	claims, err := d.Claims(pod)
	if err != nil {
		return m, err
	}
	ours, others, err := d.Split(pod, claims)
	if err != nil {
		return m, err
	}
	var usable usableOn
	if err := d.add(&m, &usable, ours); err != nil {
		return m, err
	}
	m.Claims = planning.ClaimsKey(pod, claims)
	if others != nil {
		usable = append(usable, others)
		m.Claims += "\n" + string(pod.UID) // Drivers say of each pod by itself where it can be.
	}
	if resources := d.Extended(pod); extendedresource.AnyBacked(resources) {
		err = d.addExtended(&m, &usable, resources)
	}
	m.Usable = usable.all()
	return m, err
}

// add adds claims of a pod.
func (d *Describer) add(m *planning.Member, usable *usableOn, claims []*resourceapi.ResourceClaim) error {
	for _, claim := range claims {
		checked, err := d.Check(m.Pod.Pod, claim)
		if err != nil {
			return err
		}
		decided := checked.Decided() != nil
		switch {
		case decided && checked.Broken != nil:
			return checked.Broken
		case decided || checked.Nodes != nil:
			*usable = append(*usable, checked.UsableOn)
		}
		if !decided {
			m.Open = append(m.Open, claim)
		}
	}
	return nil
}

// addExtended adds what devices have to back of a pod's extended resources: with the claim that an earlier attempt has left,
// if there is one, and else with one that is to be made.
func (d *Describer) addExtended(m *planning.Member, usable *usableOn, resources []extendedresource.Resource) error {
	left, err := d.LeftOver(m.Pod.Pod)
	if err != nil {
		return err
	}
	demand := extendedresource.NewDemand(m.Pod.Pod, resources, left)
	demand.Prepare(nil, nil, d.Recordable)
	on := d.kinds(demand)
	hopeless := !on.varies && demand.Found() == nil // If there is one, the gang may fit without it, and then it is removed.
	if full := demand.Full(); full.Unfit != nil && (hopeless || len(demand.Obsolete()) > 0) {
		return full.Unfit
	}
	*usable = append(*usable, on.isFit)
	if found := demand.Found(); found != nil {
		// Unlike one that is to be made, it is of no use where the pod needs less.
		m.Claims += "\nexists" + planning.ClaimsKey(m.Pod.Pod, []*resourceapi.ResourceClaim{found})
		return d.add(m, usable, []*resourceapi.ResourceClaim{found})
	}
	m.Claims += planning.ClaimsKey(m.Pod.Pod, []*resourceapi.ResourceClaim{demand.Full().Claim})
	m.Made = &trial.Made{Most: demand.Full().Claim, On: on.claim, Varies: on.varies}
	return nil
}

// usableOn are conditions for nodes, all of which have to hold.
type usableOn []func(*v1.Node) bool

// all returns the conditions as one, nil if there is none.
func (u usableOn) all() func(*v1.Node) bool {
	if len(u) == 0 {
		return nil
	}
	return func(node *v1.Node) bool {
		return !slices.ContainsFunc(u, func(holds func(*v1.Node) bool) bool { return !holds(node) })
	}
}
