// Package objective says what plans are compared by: what an objective asks for, what is known
// of a pool for that whoever searches it, and the value of a plan. How a search calculates with
// it is the search's.
package objective

import (
	"context"
	"math"
	"sync"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/internal/attribute"
	"github.com/quartermaster-dra/quartermaster/internal/recall"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/placement"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// What a demand is about, see pkg/placement.
type (
	State   = placement.State
	Device  = placement.Device
	Scratch = placement.Scratch
	Worth   = placement.Value
	Ask     = placement.Ask
)

// AnyDevice is the kind of requests that every device satisfies.
const AnyDevice = placement.AnyDevice

// Strategy is what a node is to look like afterwards.
type Strategy int

const (
	// LeastFragmentation takes what is missed least by the requests that are likely to come.
	LeastFragmentation Strategy = iota
	// Pack takes from devices and nodes of which most is used.
	Pack
	// Spread takes from devices and nodes of which least is used.
	Spread
)

// Objective is what plans are chosen by. Once used it must not be changed or copied. It is safe
// for concurrent use, and meant to be: what it has found out about devices serves all searches.
type Objective struct {
	Strategy Strategy
	// Demand is what is likely to be asked for; nil means that nothing is known of that, so
	// that every device and partition counts by its size.
	Demand *placement.Demand
	// Closeness names attributes of which equal values mean that devices are close, most
	// important first. nil means DefaultCloseness, and of more than MaxCloseness the first ones
	// count.
	Closeness []resourceapi.FullyQualifiedName

	once   sync.Once
	demand *placement.Demand
	levels []Level
	wanted []selector.Set // by kind of the demand; empty sets for any device
	every  uint64         // see EveryKind
	effort int            // see Effort
	known  knownKinds
}

// MaxCloseness is how many attributes can say what is close.
const MaxCloseness = 4

// DefaultCloseness are the standard attributes for that.
var DefaultCloseness = []resourceapi.FullyQualifiedName{"resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"}

// Level is an attribute that says what is close.
type Level struct {
	Name attribute.Name
	// Known is attribute.ColumnsFor the name.
	Known *recall.Reference[*attribute.Columns]
}

// start resolves what the fields say.
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

// Levels are the attributes that say what is close, most important first.
func (o *Objective) Levels() []Level {
	o.once.Do(o.start)
	return o.levels
}

// Assess says what the free part of a node is worth. What a plan costs is the difference, see Cost.
// For Pack and Spread it is what the node looks like afterwards, wherever it comes from.
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

// oneLess is what it costs, in devices, that Groups count one less. A demand knows how many devices
// are asked for, and not that they are to be close: if only its cost decided, small requests would
// break up groups on the one node though there are broken ones on another that costs hardly more.
const oneLess = 1.0 / 128

// Cost is what it costs to lead from one worth to another, broken being by how much Groups count
// less then. It is rounded so that sums in another order do not decide.
func (o *Objective) Cost(before, after Worth, broken float64) float64 {
	cost := placement.Cost(before, after)
	if o.Strategy == LeastFragmentation { // The others say what a node is to look like, whatever is close.
		cost += oneLess * broken
	}
	return math.Round(cost/placement.Epsilon) * placement.Epsilon
}

// AtLeast is the least that a plan can cost that leads from one worth, by way of another, to where
// even more is taken. What is left to be of use becomes less with each device; what is left in all
// may become nothing. Groups only count less and less. ok is false if nothing can be said.
func (o *Objective) AtLeast(before, after Worth, broken float64) (cost float64, ok bool) {
	if o.Strategy == LeastFragmentation {
		after.Left = 0
	}
	return o.Cost(before, after, broken) - 2*placement.Epsilon, o.Strategy != Pack
}

// maxKinds is how many kinds of requests placement.Device.Kinds has room for.
const maxKinds = 64

// mostKnown bounds the memory of knownKinds, in pools: nodes with the same devices count once.
const mostKnown = 4096

// knownKinds remembers which kinds of requests the devices of a pool satisfy, by position.
type knownKinds struct {
	mutex sync.RWMutex
	of    map[*inventory.Content][]uint64
}

// Kinds returns which kinds of requests of the demand each device of a pool satisfies, by position.
// A device on which a selector fails, or which takes long to judge, does not satisfy the kind: what
// is likely to come is a hint, and nobody waits for it. nil means that every device satisfies the
// kinds that EveryKind says, and no other.
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

// EveryKind are the kinds that any device satisfies.
func (o *Objective) EveryKind() uint64 {
	o.once.Do(o.start)
	return o.every
}

// judge evaluates the selectors of all kinds. judged is false if some answers are still missing.
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
