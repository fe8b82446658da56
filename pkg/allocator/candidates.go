package allocator

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quartermaster-dra/quartermaster/pkg/bitset"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// candidates are the devices of one pool as one request sees them. A device is in
// at most one of the two sets.
type candidates struct {
	// usable devices can be tried: they match, the node reaches them, nobody holds
	// them (unless for admin access) and their taints are tolerated.
	usable bitset.Set
	// failing devices cannot be judged because a selector fails on them. A search
	// that gets to one of them must stop with that error, as upstream does.
	failing   bitset.Set
	selection *selector.Selection
}

// candidatesIn determines the candidates of a request in a pool.
func (t *Task) candidatesIn(ctx context.Context, r *request, pool *inventory.NodePool, occupied bitset.Set) (candidates, error) {
	selection, err := t.solver.Evaluator.Select(ctx, pool, r.wanted)
	if err != nil {
		return candidates{}, interrupted(ctx)
	}
	c := candidates{usable: selection.Matches.Clone(), failing: selection.Failed, selection: selection}
	if !t.solver.Features.DeviceBindingAndStatus && !pool.Conditional.Empty() {
		// Without the feature these devices do not exist, not even for selectors.
		c.usable.AndNot(pool.Conditional)
		c.failing = c.failing.Clone()
		c.failing.AndNot(pool.Conditional)
	}
	c.usable.And(pool.Reachable)
	if !r.admin {
		c.usable.AndNot(occupied)
		if !c.failing.Empty() {
			c.failing = c.failing.Clone()
			c.failing.AndNot(occupied)
		}
	}
	c.usable.AndNot(t.unsupported(pool))
	if t.solver.Features.DeviceTaints {
		for i := range pool.Tainted.All() {
			if c.usable.Has(i) && !r.tolerates(pool.Devices[i].Taints) {
				c.usable.Remove(i)
			}
		}
	}
	return c, nil
}

// unsupported returns the devices which need a feature that is off.
func (t *Task) unsupported(pool *inventory.NodePool) bitset.Set {
	set := bitset.New(len(pool.Devices))
	if !t.solver.Features.PartitionableDevices {
		set.Or(pool.Partitions)
	}
	if !t.solver.Features.OptionalNodeOperations {
		for i, device := range pool.Devices {
			if len(device.Slice.Spec.SkipNodeOperations) > 0 {
				set.Add(i)
			}
		}
	}
	return set
}

// tolerates reports whether none of the taints keeps the request from the device.
// Effects other than NoSchedule and NoExecute are informative (KEP-5055).
func (r *request) tolerates(taints []resourceapi.DeviceTaint) bool {
	for _, taint := range taints {
		switch taint.Effect {
		case resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute:
			if !r.toleratesTaint(taint) {
				return false
			}
		}
	}
	return true
}

func (r *request) toleratesTaint(taint resourceapi.DeviceTaint) bool {
	for _, toleration := range r.tolerations {
		if resourceclaim.ToleratesTaint(toleration, taint) {
			return true
		}
	}
	return false
}
