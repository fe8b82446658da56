package preemption

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/gang/crd"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/preemption"
	"github.com/quartermaster-dra/quartermaster/internal/preemption/choose"
)

// Gangs knows which pods of PodGroups of scheduler-plugins need each other.
type Gangs interface {
	// Together returns the given pods and those that must be evicted with them.
	Together(pods []*v1.Pod) []*v1.Pod
	// Beyond returns how many pods a pod's gang can lose and still run.
	Beyond(pod *v1.Pod) int
}

// Units returns the candidates for eviction in favor of a gang of the given priority, the most important
// first. Candidates that violate PodDisruptionBudgets come before others.
func (p *Preemption) Units(ctx context.Context, gang string, priority int32) ([]*choose.Unit, error) {
	victims, err := p.victimsBelow(ctx, gang, priority)
	if err != nil {
		return nil, err
	}
	pdbs, err := p.handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("look for PodDisruptionBudgets: %w", err)
	}
	units := make([]*choose.Unit, 0, len(victims))
	for _, victim := range slices.Backward(leastImportantFirst(victims, pdbs, p.MoreImportantVictim)) {
		units = append(units, victim.unit())
	}
	return units, nil
}

// A gangVictim is an upstream victim, the core of a gang, or a pod that its gang can lose.
type gangVictim struct {
	preemption.Victim
	gang string
	core bool
}

func (v *gangVictim) unit() *choose.Unit {
	unit := &choose.Unit{Priority: v.Priority(), Gang: v.gang, Core: v.core}
	for _, info := range v.Pods() {
		unit.Pods = append(unit.Pods, info.GetPod())
	}
	return unit
}

// victimsBelow returns the victims of lower priority, in no order. It leaves out the gang's own pods.
func (p *Preemption) victimsBelow(ctx context.Context, gang string, priority int32) (victims []*gangVictim, err error) {
	nodes, err := p.handle.MutableSnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	seen := make(map[types.UID]*v1.Pod)
	gangs := make(map[string][]fwk.PodInfo)
	for _, node := range nodes {
		onNode, err := p.Evaluator.GetVictimsOnNode(ctx, node)
		if err != nil {
			return nil, fmt.Errorf("find out what can be evicted from node %s: %w", node.Node().Name, err)
		}
		for _, victim := range onNode {
			known := slices.ContainsFunc(victim.Pods(), func(info fwk.PodInfo) bool { return seen[info.GetPod().UID] != nil })
			if known || victim.Priority() >= priority {
				continue // A group appears on each of its nodes.
			}
			take(seen, victim)
			first := victim.Pods()[0].GetPod()
			if key := crd.KeyOf(first); key != "" && !victim.IsGroup() {
				gangs[key] = append(gangs[key], victim.Pods()...)
				continue
			}
			victims = append(victims, &gangVictim{Victim: victim})
		}
	}
	delete(gangs, gang)
	for _, key := range slices.Sorted(maps.Keys(gangs)) { // Of equal gangs, another attempt finds the same one.
		victims = append(victims, p.victimsOfGang(key, gangs[key])...)
	}
	return victims, nil
}

// victimsOfGang returns the core of a gang as one victim, and each pod beyond the core as a victim of its own.
// The core consists of the pods that started first.
func (p *Preemption) victimsOfGang(key string, members []fwk.PodInfo) (victims []*gangVictim) {
	core := p.coreOf(members)
	if core > 0 {
		if victim, err := preemption.NewGroupVictim(members[:core]); err == nil {
			victims = append(victims, &gangVictim{Victim: victim, gang: key, core: true})
		}
	}
	for _, member := range members[core:] {
		victims = append(victims, &gangVictim{Victim: preemption.NewPodVictim(member), gang: key})
	}
	return victims
}

// Without calls do while the given units are not in the scheduler's snapshot. Only the scheduling goroutine may call
// it.
func (p *Preemption) Without(ctx context.Context, gone []*choose.Unit, do func(nodes []fwk.NodeInfo)) error {
	snapshot := p.handle.MutableSnapshotSharedLister()
	if err := snapshot.StartMutations(); err != nil {
		return err
	}
	defer func() {
		if err := snapshot.EndMutations(); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot put back the pods that were taken out of the snapshot to find victims for a group")
		}
	}()
	for _, unit := range gone {
		for _, pod := range unit.Pods {
			if err := snapshot.RemovePod(klog.FromContext(ctx), pod, pod.Spec.NodeName); err != nil {
				return err
			}
		}
	}
	nodes, err := snapshot.NodeInfos().List()
	if err == nil {
		do(nodes)
	}
	return err
}

// EvictFor evicts victims for the pods of a gang, and nominates these pods for their nodes. It returns at once. When the
// requests are through, it calls done with those victims that do not end: the API server did not delete them, or their binding
// was turned back, so that the scheduler tries them again.
func (p *Preemption) EvictFor(pods []*v1.Pod, nodes map[types.UID]string, victims []*v1.Pod, done func(stay []*v1.Pod)) {
	preemptor := &gangPreemptor{Pod: pods[0], pods: pods}
	go func() {
		ctx := context.Background()
		logger := klog.FromContext(ctx)
		p.handle.Parallelizer().Until(ctx, len(pods), func(i int) {
			if p.leadership.Leads() != nil {
				return // Another replica may have nominated it for another node.
			}
			status := pods[i].Status.DeepCopy()
			status.NominatedNodeName = nodes[pods[i].UID]
			if err := kube.PatchPodStatus(ctx, p.handle.ClientSet(), pods[i], status); err != nil {
				logger.V(2).Info("Cannot nominate a pod of a group for the node where others are evicted for it", "pod", klog.KObj(pods[i]), "err", err)
			}
		}, p.Evaluator.PluginName)
		stays := make([]bool, len(victims))
		p.handle.Parallelizer().Until(ctx, len(victims), func(i int) {
			if victims[i].DeletionTimestamp != nil {
				return
			}
			unbound, err := p.Executor.PreemptPod(ctx, nodeOf{victims[i]}, preemptor, victims[i], p.Evaluator.PluginName)
			if err != nil {
				logger.Error(err, "Cannot evict a pod for a group; the next attempt to schedule the group tries again", "victim", klog.KObj(victims[i]))
			}
			stays[i] = unbound || err != nil
		}, p.Evaluator.PluginName)
		var stay []*v1.Pod
		for i, victim := range victims {
			if stays[i] {
				stay = append(stay, victim)
			}
		}
		done(stay)
	}()
}

// gangPreemptor implements preemption.Preemptor: the first pod of a gang represents all.
type gangPreemptor struct {
	*v1.Pod
	pods []*v1.Pod
}

func (g *gangPreemptor) UID() types.UID        { return g.Pod.UID }
func (g *gangPreemptor) SchedulerName() string { return g.Spec.SchedulerName }
func (g *gangPreemptor) Obj() runtime.Object   { return g.Pod }
func (g *gangPreemptor) Priority() int32       { return corev1helpers.PodPriority(g.Pod) }
func (g *gangPreemptor) Type() string          { return "podgroup" }
func (g *gangPreemptor) Pods() map[string]*v1.Pod {
	byName := make(map[string]*v1.Pod, len(g.pods))
	for _, pod := range g.pods {
		byName[pod.Namespace+"/"+pod.Name] = pod
	}
	return byName
}

// nodeOf implements preemption.Candidate for one victim.
type nodeOf struct{ victim *v1.Pod }

func (n nodeOf) Victims() *extenderv1.Victims { return &extenderv1.Victims{Pods: []*v1.Pod{n.victim}} }
func (n nodeOf) Name() string                 { return n.victim.Spec.NodeName }
func (n nodeOf) NumPodGroupDisruptions() int  { return 0 }
