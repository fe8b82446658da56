package search

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"

	"github.com/quartermaster-dra/quartermaster/internal/bitset"
	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/capacity"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator/internal/task"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// candidates are the devices of one pool as requests of one kind see them. A device is in at most one of the
// sets usable and failing.
type candidates struct {
	// usable devices can be tried: they match, the node reaches them, no claim holds them (unless for admin
	// access), their taints are tolerated, and their counters suffice.
	usable bitset.Set
	// failing devices cannot be judged, because a selector fails on them or the requested capacity makes no
	// sense for them. With AsUpstream, a search that reaches one of them must stop with its error. Otherwise
	// they become unjudged: no request gets them, and if there is no solution without them, the search ends
	// with their error.
	failing   bitset.Set
	unjudged  bitset.Set
	selection *selector.Selection
	// wanted are, for allocation mode All, the requested devices.
	wanted bitset.Set
	// consumptions and capacityErrors are the results of measure, by position (DRAConsumableCapacity).
	consumptions   map[int]capacity.Consumption
	capacityErrors map[int]error
	// open is set in a straight search that has to judge devices first. It holds the devices that may turn
	// out to be usable or failing.
	open    bitset.Set
	gradual selector.Gradual
}

// candidates returns the candidates of a request in a pool.
func (s *Search) candidates(r *task.Request, pool int) *candidates {
	return &s.table[r.Kind*len(s.pools)+pool]
}

// findCandidatesIn determines the candidates of a request in a pool.
func (s *Search) findCandidatesIn(r *task.Request, index int) error {
	c, state, pool := s.candidates(r, index), &s.pools[index], s.view.Pools[index]
	c.usable = s.memory.bits.New(len(pool.Devices))
	if !s.selectLater(r, c, pool) {
		selection, err := s.selectAll(pool, r.Wanted)
		switch {
		case errors.Is(err, selector.ErrPending):
			return err
		case err != nil:
			return interrupted(s.ctx)
		}
		c.failing, c.selection = selection.Failed, selection
		c.usable.Copy(selection.Matches)
		c.usable.And(pool.Reachable)
	}
	c.exclude(s.hidden(pool))
	if !r.Admin {
		c.exclude(s.occupied(state.usage, pool))
	}
	var measured bitset.Set
	if c.open == nil {
		measured = s.toMeasure(r, state, c)
	}
	c.usable.AndNot(s.unsupported(s.view.Node, pool))
	if s.Settings().RefuseOfNode {
		c.usable.AndNot(pool.OfNode)
	}
	if s.Settings().Features.DeviceTaints && !pool.Tainted.Empty() {
		for i := range pool.Tainted.All() {
			if c.usable.Has(i) && !r.Tolerates(pool.Devices[i].Taints) {
				c.usable.Remove(i)
			}
		}
	}
	s.measure(r, state, measured, c)
	if !r.TakesNothing {
		c.usable.AndNot(state.usage.Exhausted(pool))
	}
	if !s.Settings().AsUpstream && !c.failing.Empty() {
		s.passOver(r, c, pool)
	}
	return nil
}

// passOver excludes the failing devices, and remembers as unjudged those that would be usable otherwise.
func (s *Search) passOver(r *task.Request, c *candidates, pool *inventory.NodePool) {
	c.unjudged, c.failing = c.failing.Clone(), nil
	c.unjudged.And(pool.Reachable)
	c.unjudged.AndNot(s.unsupported(s.view.Node, pool))
	if s.Settings().RefuseOfNode {
		c.unjudged.AndNot(pool.OfNode)
	}
	for i := range c.unjudged.All() {
		if s.Settings().Features.DeviceTaints && !r.Tolerates(pool.Devices[i].Taints) {
			c.unjudged.Remove(i)
		}
	}
}

// next returns the position of the next candidate at or after a position, or -1.
func (c *candidates) next(from int) int {
	if c.open != nil {
		return c.open.Next(from)
	}
	usable, failing := c.usable.Next(from), c.failing.Next(from)
	if usable < 0 || failing >= 0 && failing < usable {
		return failing
	}
	return usable
}

// exclude removes devices from both sets. The set of failing devices may be shared with the cache, so it is
// copied, but only if there is a device to remove.
func (c *candidates) exclude(devices bitset.Set) {
	c.usable.AndNot(devices)
	if c.open != nil {
		c.open.AndNot(devices)
	}
	if devices != nil && !c.failing.Empty() {
		c.failing = c.failing.Clone()
		c.failing.AndNot(devices)
	}
}

// occupied returns the devices that no other claim can get. It includes devices with shares if shares are
// unsupported and, with KeepShared, if the device is not offered for sharing any more.
func (s *Search) occupied(usage *ledger.PoolUsage, pool *inventory.NodePool) bitset.Set {
	if !s.Settings().Features.ConsumableCapacity {
		return usage.Occupied(pool)
	}
	held, shared := usage.Held(pool), usage.Shared(pool)
	if !s.Settings().KeepShared || shared.Empty() {
		return held
	}
	kept := shared.Clone()
	kept.AndNot(pool.Shareable)
	if kept.Empty() {
		return held
	}
	kept.Or(held)
	return kept
}

// candidateError returns the error of a failing device.
func (s *Search) candidateError(r *task.Request, at location) error {
	c, pool := s.candidates(r, at.pool), s.view.Pools[at.pool]
	if err := c.capacityErrors[at.device]; err != nil {
		return s.capacityError(r, pool, at.device, err)
	}
	return r.Wanted.Error(pool, c.selection, at.device)
}

func (s *Search) capacityError(r *task.Request, pool *inventory.NodePool, device int, err error) error {
	return newDeviceError(fmt.Sprintf("claim %s request %s", dra.Of(r.Claim.API), r.Reference()), pool, device, err)
}

// unsupported returns the devices that need a feature that is off, here or on the node; nil if there are none.
func (s *Search) unsupported(node *v1.Node, pool *inventory.NodePool) bitset.Set {
	var set bitset.Set
	if !s.Settings().Features.PartitionableDevices && !pool.Partitions.Empty() {
		set = pool.Partitions
	}
	if pool.Skipping.Empty() || s.Settings().Features.OptionalNodeOperations &&
		slices.Contains(node.Status.DeclaredFeatures, draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate) {
		return set
	}
	both := pool.Skipping.Clone()
	both.Or(set)
	return both
}
