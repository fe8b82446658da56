package quartermaster

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/nodecache"
	"github.com/quartermaster-dra/quartermaster/internal/cluster/noderesources"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/nodes"
	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// cycleWithoutDevices is the state of an attempt to schedule a pod that takes no devices. Its CPU and memory may be what
// devices on the node need.
type cycleWithoutDevices struct {
	cycleNodes
	// task has no claims.
	task *allocator.Task
	// ofSet is set for one of several replicas.
	ofSet bool
	// named is set if PreFilter returned nodes.
	named bool
	// discouraged holds the nodes with a taint PreferNoSchedule that the pod does not tolerate.
	discouraged sets.Set[string]
}

const withoutDevicesKey fwk.StateKey = Name + ".withoutDevices"

// Clone implements fwk.StateData.
func (w *cycleWithoutDevices) Clone() fwk.StateData { return w }

// withoutDevicesIn returns the state of an attempt, nil if the pod takes devices or is left alone.
func (pl *Quartermaster) withoutDevicesIn(cs fwk.CycleState) *cycleWithoutDevices {
	if !*pl.args.PlacePodsWithoutDevices {
		return nil
	}
	w, _ := kube.Stored[*cycleWithoutDevices](cs, withoutDevicesKey)
	return w
}

// isPlacedWithoutDevices reports whether the plugin chooses the node of a pod without devices. It leaves alone pods
// that say which nodes they prefer, which have their own node, or which others place: the weight of the plugin's score
// would outweigh what they say. Without requests, a pod takes nothing that counts.
func (pl *Quartermaster) isPlacedWithoutDevices(pod *v1.Pod) bool {
	return *pl.args.PlacePodsWithoutDevices && !pl.isResize(pod) && !nodes.HasPreferences(pod) && !nodes.AsksByName(pod) && !isOfGroup(pod)
}

// placeWithoutDevices is PreFilter for a pod without devices. It returns the nodes where the pod costs the least. The
// status is Skip if it returns none: no node is rejected.
func (pl *Quartermaster) placeWithoutDevices(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, all []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !pl.isPlacedWithoutDevices(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	w := &cycleWithoutDevices{task: pl.solver.Prepare(nil), ofSet: isReplica(pod)}
	if w.takes = noderesources.Of(pod); w.takes.MilliCPU == 0 && w.takes.Memory == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	pl.state.Free.Follow(all, false) // No pod of a group gets here.
	if err := pl.state.Sync(ctx); err != nil {
		return nil, failed(err)
	}
	pl.learner.Seed(ctx)
	w.objective = pl.objectives.Of(LeastFragmentation, pl.state.demand.Demand(pl.state.Free.Beside()))
	w.nodeCost = pl.nodeCost(pl.args.Strategy)
	w.evaluation = selector.NewBudget(pl.attemptBudget, 0).For(pod.Namespace)
	logger := klog.FromContext(ctx)
	w.accepts = nodes.Accepts(logger, pod, pl.nodes, func(node *v1.Node) bool { return !nodes.Discourages(logger, node, pod) })
	if !nodes.IsSelective(pod) { // The cache would look for the few nodes that it accepts among all.
		w.known = pl.state.NodeCache.Find(ctx, w.asks(ctx, pl.objectives.Name(LeastFragmentation)))
	}
	cs.Write(withoutDevicesKey, w)
	if w.known == nil || nodes.DependsOnPods(pod) || nodes.OthersName(pod) || nodes.AsksForMore(pod) || pod.Status.NominatedNodeName != "" ||
		!pl.chooser.IsFirst() || pl.widened.Get(pod.UID) != nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	names := w.known.Best(enoughBest, mostBest, w.accepts)
	// Of more nodes that are equal, those that kube-scheduler looks at are in all zones.
	if w.named = len(names) > 0 && (!w.ofSet || len(names) < mostBest); !w.named {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreFilterResult{NodeNames: names}, nil
}

// asks returns the question to the node cache.
func (w *cycleWithoutDevices) asks(ctx context.Context, by string) *nodecache.Question {
	if w.ofSet {
		by += "\x00in tenths"
	}
	return &nodecache.Question{
		Task: w.task, Pod: w.takes, WithoutDevices: true, Consolidates: w.nodeCost != nil, By: by, Version: w.costVersion(), Accepts: w.accepts, Rate: w.cost,
	}
}

// cost returns what the pod takes away from likely requests on a node.
func (w *cycleWithoutDevices) cost(ctx context.Context, site allocator.NodeView, room noderesources.Resources) (nodecache.Verdict, error) {
	verdict, err := w.rate(selector.WithBudget(ctx, w.evaluation), w.task, site, room)
	if w.ofSet {
		verdict.Value.Cost = math.Ceil(verdict.Value.Cost*10) / 10
	} else if w.nodeCost != nil {
		verdict.Value.Cost += fullerNode * nodes.Left(site.Node, room, w.takes)
	}
	return verdict, err
}

// fullerNode is the cost, in devices, of a node that has everything left, compared with one that is full, for strategy
// Consolidate.
const fullerNode = 0.1

// isReplica reports whether the pod is one of several that serve the same, and that kube-scheduler therefore spreads
// (default constraints of PodTopologySpread). Nodes that cost nearly the same are equal for these, so that it can.
func isReplica(pod *v1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && (owner.Kind == "ReplicaSet" || owner.Kind == "StatefulSet" || owner.Kind == "ReplicationController")
}

// valueWithoutDevices is PreScore for a pod without devices. The status is Skip if all nodes are equal.
func (pl *Quartermaster) valueWithoutDevices(ctx context.Context, w *cycleWithoutDevices, pod *v1.Pod, infos []fwk.NodeInfo) *fwk.Status {
	if w == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	w.values, w.discouraged = make(map[string]allocator.Value, len(infos)), sets.New[string]()
	unknown, differ := mostRated, false
	for _, info := range infos {
		node := info.Node()
		if nodes.Discourages(klog.FromContext(ctx), node, pod) {
			w.discouraged.Insert(node.Name)
		}
		value, known := allocator.Value{}, w.nodeCost == nil && !pl.state.Inventory.IsLocal(node.Name)
		if !known && w.known != nil {
			value, known = w.known.Value(node.Name)
		}
		if !known && unknown > 0 {
			unknown--
			verdict, err := w.cost(ctx, allocator.NodeView{Node: node, Pools: pl.state.Inventory.OwnPools(node), Usage: pl.state.Ledger}, noderesources.On(info))
			value, known = verdict.Value, err == nil && verdict.Fits
		}
		if known {
			w.values[node.Name] = value
		}
		differ = differ || !known || value != w.values[infos[0].Node().Name]
	}
	if n := w.discouraged.Len(); !differ && (n == 0 || n == len(infos)) {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// merit returns the score of a node before its cost counts: a taint PreferNoSchedule is stronger than that.
func (w *cycleWithoutDevices) merit(node string) int64 {
	if w == nil || w.discouraged.Has(node) {
		return 0
	}
	return 1
}

// widenWithoutDevices has a pod without devices tried again on all nodes if it did not fit those that PreFilter
// named. The status is nil if all nodes were tried. From then on no nodes are named for the pod.
func (pl *Quartermaster) widenWithoutDevices(ctx context.Context, cs fwk.CycleState, pod *v1.Pod) *fwk.Status {
	w := pl.withoutDevicesIn(cs)
	if w == nil || !w.named {
		return nil
	}
	pl.widened.Begin(pod)
	pl.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	return kube.New(fwk.Success, "the nodes where CPU and memory are needed the least do not fit the pod but others may; looking again")
}
