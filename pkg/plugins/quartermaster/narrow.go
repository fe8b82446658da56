package quartermaster

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/narrowing"
)

// narrow returns the nodes to look at; nil stands for all of them, which is what it is
// unless they are few.
func (pl *Quartermaster) narrow(c *cycle, pod *v1.Pod, total int) *fwk.PreFilterResult {
	if c.pod.LooksEverywhere() || !pl.narrowing.IsFirst() || c.legacy != nil || narrowing.OthersName(pod) {
		return nil
	}
	names := c.allocatedOn()
	if names == nil {
		names = pl.mayHaveDevices(c, total/2)
	}
	if len(names) == 0 {
		return nil // All nodes, because no node is as good as any for telling why.
	}
	c.narrowedTo = names
	return &fwk.PreFilterResult{NodeNames: names}
}

// mayHaveDevices returns the nodes to look at, unless they are more than some number: those
// that are known to have devices, or might have, and for extended resources also those
// where a device plugin may have them.
func (pl *Quartermaster) mayHaveDevices(c *cycle, most int) sets.Set[string] {
	if c.known == nil || c.extended != nil && c.extended.Full().Unfit != nil {
		return nil
	}
	names, few := c.known.Names(most)
	if c.extended == nil {
		return names
	}
	if !few {
		return nil
	}
	if names = names.Union(pl.state.offers.On(c.extended.Resources())); len(names) > most {
		return nil
	}
	return names
}

// allocatedOn returns the only node on which all claims with an allocation can be used,
// nil if that is not fixed to one node by name.
func (c *cycle) allocatedOn() sets.Set[string] {
	var selectors []*v1.NodeSelector
	for _, claim := range c.claims {
		if claim.IsAllocated() {
			selectors = append(selectors, claim.Object.Status.Allocation.NodeSelector)
		}
	}
	return narrowing.OnlyNode(selectors...)
}
