package preemption

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/quartermaster-dra/quartermaster/internal/cluster/lease"
	"github.com/quartermaster-dra/quartermaster/internal/kube"
	"github.com/quartermaster-dra/quartermaster/internal/kube/preemption"
)

// Devices finds the pods that hold devices which another pod needs.
type Devices interface {
	// Elsewhere returns the pods of lower priority on other nodes that hold devices which the preemptor may get on this node as well.
	Elsewhere(ctx context.Context, cs fwk.CycleState, preemptor *v1.Pod, node *v1.Node) []*v1.Pod
	// Fits reports whether a node has the devices for a pod once the given pods are gone.
	Fits(ctx context.Context, cs fwk.CycleState, node *v1.Node, gone map[types.UID]*v1.Pod) bool
	// NotYet returns why a nominated pod has to wait for earlier evictions, "" if it need not.
	NotYet(ctx context.Context, cs fwk.CycleState, preemptor *v1.Pod) string
	// Retry has the pod that is being tried tried again after its pause.
	Retry(cs fwk.CycleState)
}

// Preemption is upstream's default preemption for pods that need devices. Its victims may be on other nodes than
// the one that they make room on.
type Preemption struct {
	*preemption.DefaultPreemption

	handle fwk.Handle
	// guarded is the handle that upstream's plugin uses.
	guarded *guardedHandle
	devices Devices
	// gangs finds the pods that are evicted together.
	gangs      Gangs
	leadership lease.Leadership
	// Enabled reports whether the profile preempts at all, that is, enables the plugin DefaultPreemption.
	Enabled func() bool
	// profile returns the profile's plugin DefaultPreemption, which has the profile's arguments. It
	// returns nil if the profile has none, or if the handle does not list plugins.
	profile func() *preemption.DefaultPreemption
}

// New returns a Preemption for the plugin of the given name. tell describes in events what victims give up. Nobody is evicted without leadership.
func New(ctx context.Context, plugin string, handle fwk.Handle, features kube.Features, devices Devices, gangs Gangs, leadership lease.Leadership, tell Teller) (*Preemption, error) {
	guarded := &guardedHandle{Handle: handle}
	upstream, err := preemption.NewDefaultPreemption(ctx, guarded, features)
	if err != nil {
		return nil, fmt.Errorf("set up preemption for devices: %w", err)
	}
	p := &Preemption{DefaultPreemption: upstream, handle: handle, guarded: guarded, devices: devices, gangs: gangs, leadership: leadership}
	p.profile = sync.OnceValue(p.ofProfile)
	p.Enabled = sync.OnceValue(p.isEnabled)
	preemption.SetInterface(upstream, plugin, handle, p)
	upstream.MoreImportantVictim = stayingFirst
	upstream.Executor.PreemptPod = (&eviction{
		handle: handle, pods: handle.SharedInformerFactory().Core().V1().Pods().Lister(), tell: tell, gangs: gangs, leadership: leadership, inBackground: features.EnableAsyncPreemption,
	}).evictAll
	return p, nil
}

// stayingFirst is upstream's order of importance, except that victims being deleted are the least important.
func stayingFirst(a, b preemption.Victim) bool {
	if leaves, other := isLeaving(a), isLeaving(b); leaves != other {
		return other
	}
	return preemption.MoreImportantVictim(a, b)
}

func isLeaving(victim preemption.Victim) bool {
	return !slices.ContainsFunc(victim.Pods(), func(info fwk.PodInfo) bool { return info.GetPod().DeletionTimestamp == nil })
}

func (p *Preemption) isEnabled() bool {
	return slices.Contains(kube.PostFilterPlugins(p.handle), kube.DefaultPreemption)
}

// ofProfile returns the profile's plugin DefaultPreemption, nil if it finds none.
func (p *Preemption) ofProfile() *preemption.DefaultPreemption {
	profile, ok := p.handle.(interface {
		PodGroupPostFilterPlugins() []fwk.PodGroupPostFilterPlugin
	})
	if !ok {
		return nil
	}
	for _, plugin := range profile.PodGroupPostFilterPlugins() {
		if found, ok := plugin.(*preemption.DefaultPreemption); ok {
			return found
		}
	}
	return nil
}

// GetOffsetAndNumCandidates implements preemption.Interface.
func (p *Preemption) GetOffsetAndNumCandidates(nodes int32) (offset, candidates int32) {
	if configured := p.profile(); configured != nil {
		return configured.GetOffsetAndNumCandidates(nodes)
	}
	return p.DefaultPreemption.GetOffsetAndNumCandidates(nodes)
}

// PodEligibleToPreemptOthers implements preemption.Interface. A pod for which others were evicted waits for
// these, on whichever node they are.
func (p *Preemption) PodEligibleToPreemptOthers(ctx context.Context, pod *v1.Pod, nominated *fwk.Status) (bool, string) {
	cs := kube.NewCycleState()
	if attempt := attemptIn(ctx); attempt != nil {
		cs = attempt.state
	}
	// As upstream: if no eviction can make the nominated node fit, the pod looks for another node.
	if hopeless := pod.Status.NominatedNodeName != "" && nominated.Code() == fwk.UnschedulableAndUnresolvable; !hopeless {
		if reason := p.devices.NotYet(ctx, cs, pod); reason != "" {
			return false, reason
		}
	}
	eligible, reason := p.DefaultPreemption.PodEligibleToPreemptOthers(ctx, pod, nominated)
	if !eligible && p.isBehind(pod.Status.NominatedNodeName) {
		p.devices.Retry(cs) // What would have woken the pod has happened already.
	}
	return eligible, reason
}

// isBehind reports whether the snapshot has a pod on a node that is gone.
func (p *Preemption) isBehind(nodeName string) bool {
	node, err := p.handle.MutableSnapshotSharedLister().NodeInfos().Get(nodeName)
	if nodeName == "" || err != nil {
		return false
	}
	pods := p.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	return slices.ContainsFunc(node.GetPods(), func(info fwk.PodInfo) bool {
		pod := info.GetPod()
		now, err := pods.Pods(pod.Namespace).Get(pod.Name)
		return pod.DeletionTimestamp != nil && (err != nil || now.UID != pod.UID)
	})
}

// SelectVictimsOnNode implements preemption.Interface. Upstream chooses among the pods on the node and the pods on
// other nodes that are in the way.
func (p *Preemption) SelectVictimsOnNode(ctx context.Context, cs fwk.CycleState, preemptor *v1.Pod, node fwk.NodeInfo,
	possible []*preemption.DomainVictim, pdbs []*policy.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	elsewhere, err := p.elsewhere(ctx, cs, preemptor, node, possible, pdbs)
	if err != nil {
		return nil, 0, kube.Failed(err)
	}
	victims, violating, status := p.DefaultPreemption.SelectVictimsOnNode(ctx, cs, preemptor, node, append(slices.Clip(possible), elsewhere...), pdbs)
	if status.IsSuccess() {
		all, status := p.together(preemptor, victims)
		if !status.IsSuccess() {
			return nil, 0, status
		}
		if len(all) > len(victims) {
			victims, violating = all, violations(all, pdbs)
		}
	}
	// stayingFirst sorts leaving victims last, but upstream expects the first victim to have the highest priority.
	slices.SortStableFunc(victims, func(a, b *v1.Pod) int { return cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)) })
	if attempt := attemptIn(ctx); attempt != nil && status.IsSuccess() {
		attempt.set(node.Node().Name, victims)
	}
	return victims, violating, status
}

// together adds the pods that must go with the victims. It rejects the node if one of these has the preemptor's
// priority or a higher one.
func (p *Preemption) together(preemptor *v1.Pod, victims []*v1.Pod) ([]*v1.Pod, *fwk.Status) {
	all := p.gangs.Together(victims)
	for _, pod := range all {
		if corev1helpers.PodPriority(pod) >= corev1helpers.PodPriority(preemptor) {
			return nil, kube.New(fwk.UnschedulableAndUnresolvable, "a group of pods would have to go and some of them do not have a lower priority")
		}
	}
	return all, nil
}

// violations returns how many victims violate PodDisruptionBudgets if all of them go.
func violations(victims []*v1.Pod, pdbs []*policy.PodDisruptionBudget) int {
	var all []preemption.Victim
	for _, pod := range victims {
		if info, err := kube.NewPodInfo(pod); err == nil {
			all = append(all, preemption.NewPodVictim(info))
		}
	}
	violating, _ := preemption.FilterVictimsWithPDBViolation(all, pdbs)
	return len(violating)
}

// Preempt implements PostFilter. It also returns the victims on the node that the pod is nominated for.
func (p *Preemption) Preempt(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, []*v1.Pod, *fwk.Status) {
	attempt := p.newAttempt(cs)
	result, status := p.PostFilter(context.WithValue(ctx, attemptKey{}, attempt), cs, pod, statuses)
	if !status.IsSuccess() || result == nil || result.NominatingInfo == nil {
		return result, nil, status
	}
	return result, attempt.victimsOn(result.NominatedNodeName), status
}

// elsewhere returns the victims on other nodes that have to be considered.
//
// Upstream removes all victims, and puts them back one by one, the most important first. If the least important
// victims on any nodes suffice, upstream would put all others back, so elsewhere leaves those out.
func (p *Preemption) elsewhere(ctx context.Context, cs fwk.CycleState, preemptor *v1.Pod, node fwk.NodeInfo,
	local []*preemption.DomainVictim, pdbs []*policy.PodDisruptionBudget) ([]*preemption.DomainVictim, error) {
	victims, err := p.victimsOf(ctx, p.devices.Elsewhere(ctx, cs, preemptor, node.Node()), local)
	if err != nil || len(victims) == 0 {
		return nil, err
	}
	remote := make(map[*preemption.DomainVictim]bool)
	for _, victim := range victims {
		remote[victim] = true
	}
	priority := corev1helpers.PodPriority(preemptor)
	for _, victim := range local {
		if victim.Priority() < priority {
			victims = append(victims, victim)
		}
	}
	least := leastImportantFirst(victims, pdbs, p.MoreImportantVictim)
	least = least[:p.enough(ctx, cs, node.Node(), least)]
	return slices.DeleteFunc(least, func(victim *preemption.DomainVictim) bool { return !remote[victim] }), nil
}

// enough returns how many of the first victims suffice, 0 if not even all of them do.
func (p *Preemption) enough(ctx context.Context, cs fwk.CycleState, node *v1.Node, victims []*preemption.DomainVictim) int {
	fits := func(n int) bool {
		gone := make(map[types.UID]*v1.Pod, n)
		for _, victim := range victims[:n] {
			take(gone, victim)
		}
		return p.devices.Fits(ctx, cs, node, gone)
	}
	if !fits(len(victims)) {
		return 0
	}
	return sort.Search(len(victims), fits)
}

// take adds the pods of a victim to gone.
func take(gone map[types.UID]*v1.Pod, victim *preemption.DomainVictim) {
	for _, info := range victim.Pods() {
		gone[info.GetPod().UID] = info.GetPod()
	}
}

// victimsOf returns the victims that the given pods belong to, each once, and none of the known ones. A victim is
// a pod, or all pods of a PodGroup that is disrupted as a whole.
func (p *Preemption) victimsOf(ctx context.Context, pods []*v1.Pod, known []*preemption.DomainVictim) ([]*preemption.DomainVictim, error) {
	seen := make(map[types.UID]*v1.Pod)
	for _, victim := range known {
		take(seen, victim)
	}
	chosen := sync.OnceValue(p.chosen)
	if attempt := attemptIn(ctx); attempt != nil {
		chosen = attempt.chosen
	}
	onNode := make(map[string][]*preemption.DomainVictim)
	var victims []*preemption.DomainVictim
	for _, pod := range pods {
		if seen[pod.UID] != nil {
			continue
		}
		nodeName := pod.Spec.NodeName
		if nodeName == "" {
			nodeName = chosen()[pod.UID]
		}
		candidates, looked := onNode[nodeName]
		if !looked {
			node, err := p.handle.MutableSnapshotSharedLister().NodeInfos().Get(nodeName)
			if err != nil {
				continue // The pod is not in this cycle's snapshot.
			}
			if candidates, err = p.victimsOnNode(ctx, node); err != nil {
				return nil, fmt.Errorf("find out what is evicted together with pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			onNode[nodeName] = candidates
		}
		for _, victim := range candidates {
			if slices.ContainsFunc(victim.Pods(), func(info fwk.PodInfo) bool { return info.GetPod().UID == pod.UID }) {
				take(seen, victim)
				victims = append(victims, victim)
			}
		}
	}
	return victims, nil
}

// leastImportantFirst sorts victims in upstream's order of eviction.
func leastImportantFirst[V preemption.Victim](victims []V, pdbs []*policy.PodDisruptionBudget, moreImportant preemption.MoreImportant) []V {
	slices.SortStableFunc(victims, func(a, b V) int {
		switch {
		case moreImportant(a, b):
			return -1
		case moreImportant(b, a):
			return 1
		}
		return 0
	})
	violating, others := preemption.FilterVictimsWithPDBViolation(victims, pdbs)
	slices.Reverse(others)
	slices.Reverse(violating)
	return append(others, violating...)
}
