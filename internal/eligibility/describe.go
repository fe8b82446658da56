package eligibility

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/claims/extended"
	"github.com/quartermaster-dra/quartermaster/internal/commit"
	"github.com/quartermaster-dra/quartermaster/internal/gang/devices"
	"github.com/quartermaster-dra/quartermaster/internal/gang/planning"
)

// A Describer collects what planning has to know of pods, in one scheduling cycle.
type Describer struct {
	// Needs finds out what pods need.
	Needs *Finder
	// Rules decides which claims the pods can use.
	Rules *Rules
	Nodes []fwk.NodeInfo
	// Account returns the account of a pod with these claims; it is nil if devices take no resources of nodes.
	Account func(pod *v1.Pod, claims []*Claim) devices.Account

	// offered holds the resources that device plugins offer, by node, and somewhere those that any node offers. Both
	// are nil until needed.
	offered   map[string]map[v1.ResourceName]int64
	somewhere sets.Set[v1.ResourceName]
}

// Describe returns a pod with its claims. The error says why the pod cannot be scheduled for now.
func (d *Describer) Describe(pod *v1.Pod) (planning.Member, error) {
	m := planning.Member{Pod: devices.Pod{Pod: pod}}
	needs := d.Needs.Of(pod)
	claims, err := needs.Claims()
	if err != nil {
		return m, err
	}
	ours, others, err := needs.Divide(claims)
	if err != nil {
		return m, err
	}
	var usable usableOn
	checked, err := d.add(&m, &usable, ours)
	if err != nil {
		return m, err
	}
	m.Claims = planning.ClaimsKey(pod, claims)
	if others != nil {
		usable = append(usable, driversNodes(others))
		m.Claims += "\n" + string(pod.UID) // Drivers decide for each pod separately where it can be.
	}
	if needs.Backed() {
		found, failed := d.addExtended(&m, &usable, needs)
		checked, err = append(checked, found...), failed
	}
	if d.Account != nil && err == nil && (len(checked) > 0 || m.Made != nil) {
		m.Account = d.Account(pod, checked)
	}
	if len(usable) > 0 {
		m.Allocated = usable
	}
	return m, err
}

// add adds a pod's claims to m: as open ones if they need devices, and to usable if they limit the nodes.
func (d *Describer) add(m *planning.Member, usable *usableOn, claims []*resourceapi.ResourceClaim) (all []*Claim, err error) {
	for _, claim := range claims {
		checked, err := d.Rules.Check(m.Pod.Pod, claim)
		if err != nil {
			return nil, err
		}
		all = append(all, checked)
		decided := checked.Decided() != nil
		switch {
		case decided && checked.Broken != nil:
			m.Unfit = checked.Broken
		case decided || checked.Nodes != nil:
			*usable = append(*usable, checked)
		}
		if !decided {
			m.Open = append(m.Open, claim)
		}
	}
	return all, nil
}

// addExtended adds the claim for a pod's extended resources: the claim that an earlier attempt left, or else one to be
// made.
func (d *Describer) addExtended(m *planning.Member, usable *usableOn, needs *Needs) (checked []*Claim, err error) {
	made, err := needs.Made()
	if err != nil {
		return nil, err
	}
	demand := extended.NewDemand(m.Pod.Pod, needs.Resources, made)
	demand.Prepare(nil, nil, d.Needs.Claims.Server.StoresExtendedResources())
	on := d.kinds(demand)
	hopeless := !on.varies && demand.Found() == nil // With a claim, the gang may fit without it, and then it is removed.
	if full := demand.Full(); full.Unfit != nil && (hopeless || len(demand.StaleClaims()) > 0) {
		return nil, full.Unfit
	}
	*usable = append(*usable, on)
	if found := demand.Found(); found != nil {
		// Unlike a claim to be made, it is of no use on nodes where the pod needs less.
		m.Claims += "\nexists" + planning.ClaimsKey(m.Pod.Pod, []*resourceapi.ResourceClaim{found})
		checked, err = d.add(m, usable, []*resourceapi.ResourceClaim{found})
		for _, claim := range checked {
			claim.Origin = commit.Made
		}
		return checked, err
	}
	m.Claims += planning.ClaimsKey(m.Pod.Pod, []*resourceapi.ResourceClaim{demand.Full().Claim})
	m.Made = &devices.Made{Most: demand.Full().Claim, Variants: on, Varies: on.varies}
	return nil, nil
}

// usableOn is a list of conditions for nodes. It implements devices.Allocated.
type usableOn []devices.Allocated

// UsableOn reports whether all conditions hold.
func (u usableOn) UsableOn(node *v1.Node) bool {
	return !slices.ContainsFunc(u, func(a devices.Allocated) bool { return !a.UsableOn(node) })
}

// driversNodes reports whether the drivers of claims let a pod use them on a node.
type driversNodes func(*v1.Node) bool

// UsableOn implements devices.Allocated.
func (d driversNodes) UsableOn(node *v1.Node) bool { return d(node) }
