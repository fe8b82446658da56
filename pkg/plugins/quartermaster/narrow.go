package quartermaster

import (
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// narrowing lets PreFilter name the nodes that can have the devices for a pod, so that
// in a cluster that is nearly full no plugin looks at the others.
//
// It costs a pod nothing. Other nodes are those on which Filter would say no. Should
// none of the named nodes do, then PostFilter, before preemption has its turn, lets all
// plugins judge the other nodes as well: the pod gets their reasons, and preemption
// their verdicts. What changes meanwhile is an event like any other for a pod that this
// plugin has rejected. If one of the other nodes would do after all, the next attempt is
// not narrowed: whatever the reason was, it cannot come about twice in a row.
type narrowing struct {
	handle fwk.Handle
	once   sync.Once
	first  bool
}

// statusWriter is what is needed of the scheduler to add verdicts.
type statusWriter interface {
	Set(nodeName string, status *fwk.Status)
}

var _ statusWriter = &framework.NodeToStatus{}

// possible reports whether PostFilter gets its turn before all other plugins.
func (n *narrowing) possible() bool {
	n.once.Do(func() {
		if profile, ok := n.handle.(interface{ ListPlugins() *config.Plugins }); ok {
			enabled := profile.ListPlugins().PostFilter.Enabled
			n.first = len(enabled) > 0 && enabled[0].Name == Name
		}
	})
	return n.first
}

// narrow returns the nodes to look at; nil stands for all of them, which is what it is
// unless they are few.
func (pl *Quartermaster) narrow(c *cycle, pod *v1.Pod, total int) *fwk.PreFilterResult {
	if c.pod.LooksEverywhere() || !pl.narrowing.possible() || c.legacy != nil || othersNarrow(pod) {
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

// othersNarrow reports whether other plugins may name nodes for the pod as well. If
// theirs and ours had none in common, the scheduler would not get to PostFilter with
// anything to say.
func othersNarrow(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, claimsVolume) ||
		pod.Spec.SchedulingGroup != nil ||
		pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil
}

func claimsVolume(volume v1.Volume) bool {
	return volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil
}

// allocatedOn returns the only node on which all claims with an allocation can be used,
// nil if that is not fixed to one node by name.
func (c *cycle) allocatedOn() sets.Set[string] {
	var names sets.Set[string]
	for _, claim := range c.claims {
		if !claim.allocated() {
			continue
		}
		name, fixed := onlyNode(claim.claim.Status.Allocation.NodeSelector)
		switch {
		case !fixed:
		case names == nil:
			names = sets.New(name)
		case !names.Has(name):
			return nil // On two nodes: no node will do, and all can say so.
		}
	}
	return names
}

// onlyNode returns the name of the node that a selector is for, if it is for one.
func onlyNode(selector *v1.NodeSelector) (string, bool) {
	if selector == nil || len(selector.NodeSelectorTerms) != 1 {
		return "", false
	}
	term := &selector.NodeSelectorTerms[0]
	if len(term.MatchFields) != 1 || len(term.MatchExpressions) > 0 {
		return "", false
	}
	field := &term.MatchFields[0]
	if field.Key != "metadata.name" || field.Operator != v1.NodeSelectorOpIn || len(field.Values) != 1 {
		return "", false
	}
	return field.Values[0], true
}

// judgeOthers lets all plugins judge the nodes that were left out. It reports whether
// one of them would do after all, because something changed since PreFilter.
func (pl *Quartermaster) judgeOthers(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, c *cycle, statuses fwk.NodeToStatusReader) bool {
	writer, ok := statuses.(statusWriter)
	nodes, err := pl.handle.SnapshotSharedLister().NodeInfos().List()
	if !ok || err != nil {
		klog.FromContext(ctx).Error(err, "Cannot judge the nodes that were left out; looking at all nodes next time", "pod", klog.KObj(pod))
		return true
	}
	var mutex sync.Mutex
	fits := false
	pl.handle.Parallelizer().Until(ctx, len(nodes), func(i int) {
		name := nodes[i].Node().Name
		if c.narrowedTo.Has(name) {
			return
		}
		status := pl.handle.RunFilterPluginsWithNominatedPods(ctx, cs, pod, nodes[i])
		mutex.Lock()
		defer mutex.Unlock()
		if status.IsSuccess() {
			fits = true
			return
		}
		writer.Set(name, status)
	}, Name)
	return fits
}
