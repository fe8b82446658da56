// Package objective defines how allocation plans are compared: the objective, its knowledge of a pool
// independent of the search, and the value of a plan. Package search does the calculation during a search.
package objective

import (
	"context"
	"math"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/memo"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Aliases for the types of a demand, see pkg/placement.
type (
	State   = placement.State
	Device  = placement.Device
	Scratch = placement.Scratch
	Worth   = placement.Value
	Ask     = placement.Ask
)

// AnyDevice is the kind of requests that every device satisfies.
const AnyDevice = placement.AnyDevice

// A Strategy defines the preferred state of a node after an allocation.
type Strategy int

const (
	// LeastFragmentation takes devices that likely future requests will miss least.
	LeastFragmentation Strategy = iota
	// Pack takes from the devices and nodes that are used most.
	Pack
	// Spread takes from the devices and nodes that are used least.
	Spread
)

// An Objective ranks plans. It must not be changed or copied after its first use. It is safe for concurrent
// use and should be shared, because all searches profit from its knowledge of devices.
type Objective struct {
	Strategy Strategy
	// Demand is the likely future demand. nil means that it is unknown, so that every device and partition
	// counts by its size.
	Demand *placement.Demand
	// Closeness names the attributes whose equal values make devices close, most important first. nil means
	// DefaultCloseness. Only the first MaxCloseness attributes count.
	Closeness []resourceapi.FullyQualifiedName

	once   sync.Once
	demand *placement.Demand
	levels []Level
	wanted []selector.Set // by kind of the demand; empty sets for any device
	every  uint64         // see EveryKind
	effort int            // see Effort
	known  knownKinds
}

// MaxCloseness is the maximum number of attributes for closeness.
const MaxCloseness = 4

// DefaultCloseness are the standard attributes for closeness.
var DefaultCloseness = []resourceapi.FullyQualifiedName{"resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"}

// A Level is an attribute for closeness.
type Level struct {
	Name attribute.Name
	// Known must come from attribute.ColumnsFor the name.
	Known *memo.Reference[*attribute.Columns]
}

// start resolves the fields.
func (o *Objective) start() {
	if o.demand = o.Demand; o.demand == nil {
		o.demand = placement.Published()
	}
	closeness := o.Closeness
	if closeness == nil {
		closeness = DefaultCloseness
	}
	for _, name := range closeness[:min(len(closeness), MaxCloseness)] {
		level := Level{Name: attribute.NewName(name)}
		level.Known = attribute.ColumnsFor(&level.Name)
		o.levels = append(o.levels, level)
	}
	for i, kind := range o.demand.Kinds[:min(len(o.demand.Kinds), maxKinds)] {
		var wanted selector.Set
		if kind == placement.AnyDevice {
			o.every |= 1 << i
		} else {
			wanted = selector.SetOf(kind)
			wanted.Recur()
		}
		o.wanted = append(o.wanted, wanted)
	}
	o.effort = o.assessing()
}

// Levels returns the attributes for closeness, most important first.
func (o *Objective) Levels() []Level {
	o.once.Do(o.start)
	return o.levels
}

// Assess returns the worth of the free part of a node. The difference of two worths is the cost of a plan,
// see Cost. For Pack and Spread the worth depends only on the node after the allocation.
func (o *Objective) Assess(state *State, scratch *Scratch) Worth {
	o.once.Do(o.start)
	switch o.Strategy {
	case Pack:
		return Worth{Left: 1 - packed(state)}
	case Spread:
		return Worth{Left: packed(state)}
	}
	return o.demand.Assess(state, scratch)
}

// oneLess is the cost, in devices, of a decrease by 1 of the count of Groups. A demand knows the number of
// requested devices, but not that they should be close. If only its cost decided, small requests would break
// up groups on one node though another, hardly more expensive node has broken ones.
const oneLess = 1.0 / 128

// Cost returns the cost of a change from one worth to another; broken is the decrease of the count of Groups.
// It is rounded, so that the order of summation does not decide.
func (o *Objective) Cost(before, after Worth, broken float64) float64 {
	cost := placement.Cost(before, after)
	if o.Strategy == LeastFragmentation { // The other strategies ignore closeness here.
		cost += oneLess * broken
	}
	return math.Round(cost/placement.Epsilon) * placement.Epsilon
}

// AtLeast returns a lower bound for the cost of all plans that start at one worth, pass another, and take
// even more. The usable part decreases with each device; the total left may become nothing. Groups only count
// less and less. ok is false if there is no bound.
func (o *Objective) AtLeast(before, after Worth, broken float64) (cost float64, ok bool) {
	if o.Strategy == LeastFragmentation {
		after.Left = 0
	}
	return o.Cost(before, after, broken) - 2*placement.Epsilon, o.Strategy != Pack
}

// maxKinds is the number of kinds of requests that fit into placement.Device.Kinds.
const maxKinds = 64

// mostKnown limits the memory of knownKinds, in pools: nodes with the same devices count once.
const mostKnown = 4096

// knownKinds caches, for each pool, the kinds of requests that its devices satisfy, by position.
type knownKinds struct {
	mutex sync.RWMutex
	of    map[*inventory.Content][]uint64
}

// Kinds returns the kinds of requests of the demand that each device of a pool satisfies, by position. A
// device on which a selector fails or takes long does not satisfy the kind, because the demand is only a hint
// that is not worth waiting for. nil means that every device satisfies the kinds in EveryKind, and no other.
func (o *Objective) Kinds(ctx context.Context, e *selector.Evaluator, pool *inventory.NodePool) []uint64 {
	o.once.Do(o.start)
	if len(o.wanted) == 0 || o.EveryKind() == 1<<len(o.wanted)-1 {
		return nil
	}
	o.known.mutex.RLock()
	kinds, found := o.known.of[pool.Content]
	o.known.mutex.RUnlock()
	if found && len(kinds) == len(pool.Devices) {
		return kinds
	}
	kinds, judged := o.judge(ctx, e, pool)
	if !judged {
		return kinds
	}
	o.known.mutex.Lock()
	defer o.known.mutex.Unlock()
	if o.known.of == nil || len(o.known.of) >= mostKnown {
		o.known.of = make(map[*inventory.Content][]uint64)
	}
	o.known.of[pool.Content] = kinds
	return kinds
}

// EveryKind returns the kinds that any device satisfies.
func (o *Objective) EveryKind() uint64 {
	o.once.Do(o.start)
	return o.every
}

// judge evaluates the selectors of all kinds. judged is false if some verdicts are still missing.
func (o *Objective) judge(ctx context.Context, e *selector.Evaluator, pool *inventory.NodePool) (kinds []uint64, judged bool) {
	kinds, judged = make([]uint64, len(pool.Devices)), true
	every := o.EveryKind()
	for i := range kinds {
		kinds[i] = every
	}
	for kind := range o.wanted {
		if every&(1<<kind) != 0 {
			continue
		}
		selection, err := e.Select(ctx, pool, o.wanted[kind])
		if err != nil {
			judged = false
			continue
		}
		for device := range selection.Matches.All() {
			kinds[device] |= 1 << kind
		}
	}
	return kinds, judged
}

// sharesPerDevice is the number of requests for shares that can be compared with a device in the time that it
// takes to look at the device.
const sharesPerDevice = 16

// Effort returns the cost of assessing a state, per device: 1 unless the demand contains many requests for shares.
func (o *Objective) Effort() int {
	o.once.Do(o.start)
	return o.effort
}

// assessing calculates Effort.
func (o *Objective) assessing() int {
	if o.Strategy != LeastFragmentation {
		return 1
	}
	shares := 0
	for i := range o.demand.Shapes {
		for _, r := range o.demand.Shapes[i].Requests {
			if r.Amount > 0 {
				shares++
			}
		}
	}
	return 1 + shares/sharesPerDevice
}
