package hold

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Waiting is a pod, or a group whose pods start together, that has waited for longer than it should.
type Waiting struct {
	// Name is "namespace/name" of the group if Group is set, else of the pod.
	Namespace, Name string
	Group           bool
	Priority        int32
	// Since is when it began to wait, and Due when it began to deserve a hold.
	Since, Due time.Time
	// Evicts is set if pods of lower priority may be evicted for it. Then their devices count as free.
	Evicts bool
	// Pods are those that have to be placed together: of a group, as many as it lacks.
	Pods []*Pod
	// Domain returns the domain of a node, and whether it has one; all pods have to be in one. nil stands for no such condition.
	Domain func(*v1.Node) (string, bool)
	// Booking is the time of a booking, whose pods stand for what it books; nil for a pod or group that waits.
	Booking *Booking
	// InUse are the devices of pods that a booking is for: from its start on, as many as fit into the limits are held as soon as these
	// pods have ended.
	InUse []ledger.Use
	// Briefly are those devices before the start: they are held from the end of the pods on until the next plan.
	Briefly []ledger.Use
	// For are the bookings that are for the pods.
	For []types.UID
	// Refusal is why Plan returned no hold.
	Refusal Refusal
}

// compare orders holders: who comes first gets the better places.
func (w *Waiting) compare(other *Waiting) int {
	return cmp.Or(
		cmp.Compare(other.Priority, w.Priority), w.Since.Compare(other.Since),
		cmp.Compare(w.Name, other.Name), cmp.Compare(w.first(), other.first()),
	)
}

// first returns the UID of the first pod. A booking may have none.
func (w *Waiting) first() types.UID {
	if len(w.Pods) == 0 {
		return ""
	}
	return w.Pods[0].UID
}

// A Pod is a pod that waits.
type Pod struct {
	UID types.UID
	// Takes is its use of a node besides devices.
	Takes noderesources.Resources
	// Open and Allocated are the pod's claims without devices and with them.
	Open, Allocated []types.UID
	// Kind is equal for pods that the same nodes suit.
	Kind string
	Requirements
}

// Requirements decide where a pod can be.
type Requirements interface {
	// Admits reports whether a node suits the pod, whatever runs there.
	Admits(*v1.Node) bool
	// Solve returns the devices that the pod gets on a node with the given usage, nil if they do not suffice.
	Solve(*v1.Node, ledger.View) []ledger.Use
	// Wants reports whether the pod may get one of some devices of a pool.
	Wants(pool *inventory.NodePool, devices ...string) bool
}

// A Node is a node with its devices.
type Node struct {
	*v1.Node
	// Pools are the pools that the node reaches, and Claims those that hold devices in each. Nodes that reach the same pool share its list.
	Pools  []*inventory.NodePool
	Claims [][]types.UID
	// Room is the node's free room besides devices.
	Room noderesources.Resources
}

// A Holding is a claim with devices.
type Holding struct {
	Use ledger.Use
	End End
	// Gone is when the last pod of it ends at the latest; the zero time if that is not known of all.
	Gone time.Time
	// Highest is the highest priority of the pods that hold it.
	Highest int32
	// Pods are the pods that end with it.
	Pods []Runner
}

// A Runner is a pod on a node, and what it takes of it besides devices.
type Runner struct {
	Pod   types.UID
	Node  string
	Takes noderesources.Resources
}

// World holds everything that a plan depends on.
type World struct {
	Now time.Time
	// Nodes are in the order of their names.
	Nodes []Node
	// Tried are the present holds of those that are just being tried. They stay as they are until the attempt has ended: its outcome
	// is not known, and without the hold others would take the devices.
	Tried []Tried
	Cluster
	Limits Limits

	// stays are the claims with devices that a plan keeps for a booking as soon as its pods have ended.
	stays map[types.UID]*Waiting
	// looks is the number of looks that a plan has had at a pod on a node.
	looks int
	// on are the claims of the pods on each node; see claimsOn.
	on map[string][]*Holding
}

// Tried is a present hold of somebody who is just being tried.
type Tried struct {
	*Hold
	// Reserved are the pods whose devices the usage and the nodes' room have already.
	Reserved map[types.UID]bool
}

// A Cluster answers questions about the devices in use.
type Cluster interface {
	// Usage returns the usage that a holder must respect, without holds.
	Usage(*Waiting) ledger.View
	// Holding returns a claim with devices and when it is expected to end, nil if it has none.
	Holding(types.UID) *Holding
	// ClassOf returns the class of a planned device.
	ClassOf(claim ledger.ClaimRef, request string) string
	// Devices returns the number of devices of a class.
	Devices(class string) int
}

// Limits are the bounds of what is held.
type Limits struct {
	// MaxHolds is the number of holds, and of booked ones beside them. Percent and PercentOfNamespace limit the held devices of each class: all together,
	// and for the holders of one namespace.
	MaxHolds, Percent, PercentOfNamespace int
}

// A Hold lists the devices that are kept for a holder.
type Hold struct {
	*Waiting
	// Begin is when the last device is expected to be free; the zero time if that is not known. Ready is set if all are.
	Begin time.Time
	Ready bool
	// Late is the number of claims with these devices that are not known to end before a booking starts.
	Late int
	// Uses are the allocations kept for each pod, and Nodes the nodes where they are.
	Uses  map[types.UID][]ledger.Use
	Nodes map[types.UID]string

	// pools are those of the held devices, and devices is their number by class.
	pools   map[inventory.PoolID]bool
	devices map[string]int
	// before is the hold as it was until a pod of it ended, nil for one as planned.
	before *Hold
}

// All returns the allocations that a hold keeps, in the order of its pods.
func (h *Hold) All() (uses []ledger.Use) {
	for _, pod := range h.Waiting.Pods {
		uses = append(uses, h.Uses[pod.UID]...)
	}
	return uses
}

// devicesHeld returns the devices of a hold, with those that are in use by pods that a booking is for.
func (h *Hold) devicesHeld() ledger.Freed { return h.heldExceptFor("") }

// heldExceptFor does the same without what waiting pods are to get for a claim.
func (h *Hold) heldExceptFor(claim types.UID) ledger.Freed {
	planned := slices.DeleteFunc(h.All(), func(use ledger.Use) bool { return use.Claim.UID == claim })
	return ledger.DevicesOf(slices.Concat(planned, h.InUse, h.Briefly)...)
}

// isOf reports whether a hold is another one, or what is left of it.
func (h *Hold) isOf(other *Hold) bool {
	for ; h != nil; h = h.before {
		if h == other {
			return true
		}
	}
	return false
}

// open returns the places of the pods that have not reserved any.
func (t Tried) open() (places []placed) {
	for _, pod := range t.Waiting.Pods {
		if uses, has := t.Uses[pod.UID]; has && !t.Reserved[pod.UID] {
			places = append(places, placed{pod, t.Nodes[pod.UID], uses})
		}
	}
	return places
}

// servingFor limits how long a hold relies on pods that end only when somebody deletes them.
const servingFor = time.Hour

// mostImpossible limits how many kinds of holders of a namespace are planned in vain.
const mostImpossible = 16

// Plan returns the holds: those of Tried, and then the others in the order in which they were planned. What does not fit even if
// everything that ever ends has ended, and what would exceed a limit, holds nothing; the next ones may.
func (w *World) Plan(waiting []*Waiting) (holds []*Hold) {
	slices.SortFunc(waiting, (*Waiting).compare)
	w.stays, w.looks = make(map[types.UID]*Waiting), 0
	p := &planner{World: w, quota: newQuota(w), failed: make(map[share]int), planned: make(map[bool]int), impossible: make(map[string]bool), claims: make(map[types.UID]bool)}
	for _, tried := range w.Tried {
		holds = append(holds, tried.Hold)
		p.noteClaims(tried.Hold)
		if open := tried.open(); len(open) > 0 || len(tried.InUse) > 0 {
			p.planned[tried.Booking != nil]++
			p.keep(tried.Waiting, open, tried.devices)
		}
		for _, use := range tried.InUse {
			w.stays[use.Claim.UID] = tried.Waiting
		}
	}
	for i, one := range waiting {
		if i == 0 || one.Priority != waiting[i-1].Priority { // Of one priority, what runs comes before what waits.
			for _, other := range waiting[i:] {
				if other.Priority == one.Priority {
					p.keepInUse(other)
				}
			}
		}
		if h := p.hold(one); h != nil {
			holds = append(holds, h)
			p.noteClaims(h)
		}
	}
	return holds
}

// A planner plans one holder after the other.
type planner struct {
	*World
	quota *quota
	// taken is held for earlier holders, and planned counts these, the booked ones apart.
	taken   []placed
	planned map[bool]int
	// claims are those for which devices are held.
	claims map[types.UID]bool
	// impossible are the kinds that fit nowhere, and failed counts their holders.
	impossible map[string]bool
	failed     map[share]int
}

// A share is a set of holders that count together: those of a namespace, bookings apart.
type share struct {
	namespace string
	booked    bool
}

// keep counts what is held for a holder.
func (p *planner) keep(one *Waiting, places []placed, devices map[string]int) {
	p.quota.count(one, devices)
	p.taken = append(p.taken, places...)
}

// noteClaims stores for which claims devices are held.
func (p *planner) noteClaims(h *Hold) {
	for _, use := range h.All() {
		p.claims[use.Claim.UID] = true
	}
}

// shares reports whether devices are held for a claim of a holder already: for another pod that shares it.
func (p *planner) shares(one *Waiting) bool {
	return slices.ContainsFunc(one.Pods, func(pod *Pod) bool {
		return slices.ContainsFunc(pod.Open, func(claim types.UID) bool { return p.claims[claim] })
	})
}

// hold returns the hold for one that waits, nil if it gets none. A booking that gets nothing more keeps the devices in use.
func (p *planner) hold(one *Waiting) (h *Hold) {
	if len(one.Pods) > 0 && !p.shares(one) {
		h = p.place(one)
	}
	if h == nil && len(one.InUse)+len(one.Briefly) > 0 {
		h = (&solution{}).hold(one, p.Now)
	}
	if h != nil {
		h.devices = p.devicesByClass(append(h.All(), one.InUse...)...)
	}
	return h
}

// place implements hold for pods without devices.
func (p *planner) place(one *Waiting) *Hold {
	kind, share := one.kind(), share{one.Namespace, one.Booking != nil}
	if len(one.InUse) == 0 && p.planned[share.booked] >= p.Limits.MaxHolds || p.failed[share] >= mostImpossible {
		return one.refuse(TooMany, tooMany)
	}
	if p.impossible[kind] {
		return one.refuse(CannotFit, fitsNowhere)
	}
	found, cut := p.best(one, p.taken)
	if cut {
		return one.refuse(CannotFit, cutShort)
	}
	if found == nil {
		p.impossible[kind] = true
		p.failed[share]++
		return one.refuse(CannotFit, fitsNowhere)
	}
	if found.cost.serving > 0 && p.Now.Sub(one.Due) > servingFor {
		return one.refuse(CannotFit, "the devices are in use by pods that end only when they are deleted")
	}
	h := found.hold(one, p.Now)
	devices := p.devicesByClass(h.All()...)
	if class := p.quota.exceeded(one, devices); class != "" {
		return one.refuse(ExceedsLimit, p.quota.describe(class, devices[class]))
	}
	if len(one.InUse) == 0 { // Otherwise it was counted with these.
		p.planned[share.booked]++
	}
	p.keep(one, found.placed, devices)
	return h
}

// kind returns a text that is equal for holders that need the same. Holders of different priority meet different usages.
func (w *Waiting) kind() string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(int(w.Priority)))
	if w.Group || w.Booking != nil {
		b.WriteString(w.Name) // Its domains and times are its own.
	}
	for _, pod := range w.Pods {
		b.WriteString("\n" + pod.Kind)
	}
	return b.String()
}
