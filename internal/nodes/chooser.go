package nodes

import (
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
)

// Chooser narrows the nodes for one plugin in a profile. It is safe for concurrent use.
type Chooser struct {
	// IsFirst reports whether the plugin's PostFilter runs before those of all other plugins.
	// Otherwise the plugin must not name nodes.
	IsFirst func() bool

	handle fwk.Handle
	plugin string
}

// New returns a Chooser for the plugin of that name.
func New(handle fwk.Handle, plugin string) *Chooser {
	return &Chooser{
		IsFirst: sync.OnceValue(func() bool {
			enabled := kube.PostFilterPlugins(handle)
			return len(enabled) > 0 && enabled[0] == plugin
		}),
		handle: handle,
		plugin: plugin,
	}
}

// OthersName reports whether other plugins may name nodes for the pod as well. If their nodes and
// ours had none in common, the scheduler would reach PostFilter without verdicts on nodes.
func OthersName(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, claimsVolume) ||
		pod.Spec.SchedulingGroup != nil || AsksByName(pod)
}

// AsksByName reports whether the pod asks for nodes by their names, as those of DaemonSets do. Only then does
// NodeAffinity name nodes.
func AsksByName(pod *v1.Pod) bool {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return false
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	return required != nil && slices.ContainsFunc(required.NodeSelectorTerms, func(term v1.NodeSelectorTerm) bool { return len(term.MatchFields) > 0 })
}

func claimsVolume(volume v1.Volume) bool {
	return volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil
}

// OnlyNode returns the only node that all selectors match, nil if they do not select one node by
// name. A nil selector matches all nodes.
func OnlyNode(selectors ...*v1.NodeSelector) sets.Set[string] {
	var names sets.Set[string]
	for _, selector := range selectors {
		name, fixed := nameIn(selector)
		switch {
		case !fixed:
		case names == nil:
			names = sets.New(name)
		case !names.Has(name):
			return nil // Two different nodes: no node fits, and Filter says so for all.
		}
	}
	return names
}

// nameIn returns the name of the only node that a selector selects by name.
func nameIn(selector *v1.NodeSelector) (string, bool) {
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

// statusWriter is the part of the scheduler's NodeToStatus that adds verdicts.
type statusWriter interface {
	Set(nodeName string, status *fwk.Status)
}

// JudgeOthers makes all plugins judge the nodes that were not named. It reports whether one of them
// fits after all, because something changed since PreFilter.
func (n *Chooser) JudgeOthers(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, named sets.Set[string], statuses fwk.NodeToStatusReader) bool {
	writer, ok := statuses.(statusWriter)
	nodes, err := n.handle.SnapshotSharedLister().NodeInfos().List()
	if !ok || err != nil {
		klog.FromContext(ctx).Error(err, "Cannot run Filter on the nodes that PreFilter left out; looking at all nodes next time", "pod", klog.KObj(pod))
		return true
	}
	var mutex sync.Mutex
	fits := false
	n.handle.Parallelizer().Until(ctx, len(nodes), func(i int) {
		name := nodes[i].Node().Name
		if named.Has(name) {
			return
		}
		status := n.handle.RunFilterPluginsWithNominatedPods(ctx, cs, pod, nodes[i])
		mutex.Lock()
		defer mutex.Unlock()
		if status.IsSuccess() {
			fits = true
			return
		}
		writer.Set(name, status)
	}, n.plugin)
	return fits
}

// Alternatives returns the merit of an allocation (KEP-4816), summed over all requests with
// alternatives. The first alternative counts as many points as there can be alternatives, each
// further one a point less.
func Alternatives(claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult) int64 {
	chosen := make(map[string]bool)
	for _, result := range allocation.Devices.Results {
		chosen[result.Request] = true
	}
	var score int64
	for request := range dra.Requests(claim) {
		if request.Alternative != "" && chosen[request.Name()] {
			score += int64(resourceapi.FirstAvailableDeviceRequestMaxSize - request.Rank)
		}
	}
	return score
}
