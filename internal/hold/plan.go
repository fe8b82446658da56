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
}

// compare orders holders: who comes first gets the better places.
func (w *Waiting) compare(other *Waiting) int {
	return cmp.Or(
		cmp.Compare(other.Priority, w.Priority), w.Since.Compare(other.Since),
		cmp.Compare(w.Name, other.Name), cmp.Compare(w.Pods[0].UID, other.Pods[0].UID),
	)
}

// A Pod is a pod that waits.
type Pod struct {
	UID types.UID
	// Takes is its use of a node besides devices.
	Takes noderesources.Resources
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
}

// A Node is a node with its devices.
type Node struct {
	*v1.Node
	// Pools are the pools that the node reaches, and Claims those that hold devices in them.
	Pools  []inventory.PoolID
	Claims []types.UID
	// Room is the node's free room besides devices.
	Room noderesources.Resources
}

// A Holding is a claim with devices.
type Holding struct {
	Use ledger.Use
	End End
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
	// MaxHolds is the number of holds. Percent and PercentOfNamespace limit the held devices of each class: all together,
	// and for the holders of one namespace.
	MaxHolds, Percent, PercentOfNamespace int
}

// A Hold lists the devices that are kept for a holder.
type Hold struct {
	*Waiting
	// Begin is when the last device is expected to be free; the zero time if that is not known. Ready is set if all are.
	Begin time.Time
	Ready bool
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
	quota, failed, impossible := newQuota(w), make(map[string]int), make(map[string]bool)
	var taken []placed
	planned := 0
	for _, tried := range w.Tried {
		holds = append(holds, tried.Hold)
		if open := tried.open(); len(open) > 0 {
			planned++
			quota.count(tried.Waiting, tried.devices)
			taken = append(taken, open...)
		}
	}
	for _, one := range waiting {
		kind := one.kind()
		if planned >= w.Limits.MaxHolds {
			break
		}
		if impossible[kind] || failed[one.Namespace] >= mostImpossible {
			continue
		}
		found := w.best(one, taken)
		if found == nil {
			impossible[kind] = true
			failed[one.Namespace]++
			continue
		}
		devices := w.devicesByClass(found.placed)
		if found.cost.serving > 0 && w.Now.Sub(one.Due) > servingFor || !quota.admits(one, devices) {
			continue
		}
		planned++
		quota.count(one, devices)
		taken = append(taken, found.placed...)
		h := found.hold(one, w.Now)
		h.devices = devices
		holds = append(holds, h)
	}
	return holds
}

// kind returns a text that is equal for holders that need the same. Holders of different priority meet different usages.
func (w *Waiting) kind() string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(int(w.Priority)))
	if w.Group {
		b.WriteString(w.Name) // Its domains are its own.
	}
	for _, pod := range w.Pods {
		b.WriteString("\n" + pod.Kind)
	}
	return b.String()
}

// quota counts the devices that are held.
type quota struct {
	world *World
	// held counts by class, and by namespace and class.
	held map[string]int
	of   map[[2]string]int
}

func newQuota(w *World) *quota {
	return &quota{world: w, held: make(map[string]int), of: make(map[[2]string]int)}
}

// admits reports whether a holder can have more devices within the limits.
func (q *quota) admits(one *Waiting, more map[string]int) bool {
	limits := q.world.Limits
	for class, n := range more {
		all := q.world.Devices(class)
		if 100*(q.held[class]+n) > limits.Percent*all || 100*(q.of[[2]string{one.Namespace, class}]+n) > limits.PercentOfNamespace*all {
			return false
		}
	}
	return true
}

// count adds what is held for a holder.
func (q *quota) count(one *Waiting, more map[string]int) {
	for class, n := range more {
		q.held[class] += n
		q.of[[2]string{one.Namespace, class}] += n
	}
}

// devicesByClass returns the number of devices of each class that some places keep.
func (w *World) devicesByClass(places []placed) map[string]int {
	devices := make(map[string]int)
	for _, place := range places {
		for _, use := range place.uses {
			for result := range ledger.Used(use.Allocation) {
				devices[w.ClassOf(use.Claim, result.Request)]++
			}
		}
	}
	return devices
}
