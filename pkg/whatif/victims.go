package whatif

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// PossibleVictims returns pods of lower priority to evict so that a pod fits on a node, and whether
// evicting them suffices. No victim is unnecessary. Like preemption, it spares the more important
// pods first; it ignores PodDisruptionBudgets. Pods on other nodes are included if they hold
// devices that the node reaches.
func (s *Snapshot) PossibleVictims(ctx context.Context, pod *v1.Pod, node string) ([]*v1.Pod, bool, error) {
	pod = stored(pod)
	if policy := pod.Spec.PreemptionPolicy; policy != nil && *policy == v1.PreemptNever {
		return nil, false, nil
	}
	lower := s.lowerOn(pod, node)
	gone := make(map[string]bool, len(lower))
	for _, candidate := range lower {
		gone[Key(candidate)] = true
	}
	if fits, err := s.fitsWithout(ctx, pod, node, gone); err != nil || !fits {
		return nil, false, err
	}
	// Spare the most important pod first.
	slices.SortStableFunc(lower, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(Key(a), Key(b)))
	})
	var victims []*v1.Pod
	for len(lower) > 0 {
		spared, err := s.mostSpared(ctx, pod, node, gone, lower)
		if err != nil {
			return nil, false, err
		}
		for _, candidate := range lower[:spared] {
			delete(gone, Key(candidate))
		}
		if spared < len(lower) {
			victims = append(victims, lower[spared])
			spared++
		}
		lower = lower[spared:]
	}
	return victims, true, nil
}

// mostSpared returns how many of the candidates, in their order, can be spared until one cannot.
// Thousands of pods may hold devices that all nodes reach, but only a few must go. So it uses a
// binary search instead of checking each pod.
func (s *Snapshot) mostSpared(ctx context.Context, pod *v1.Pod, node string, gone map[string]bool, candidates []*v1.Pod) (int, error) {
	var failed error
	spared := sort.Search(len(candidates), func(i int) bool {
		if failed != nil {
			return true
		}
		if failed = ctx.Err(); failed != nil {
			return true
		}
		rest := maps.Clone(gone)
		for _, candidate := range candidates[:i+1] {
			delete(rest, Key(candidate))
		}
		fits, err := s.fitsWithout(ctx, pod, node, rest)
		failed = err
		return !fits
	})
	return spared, failed
}

// lowerOn returns the pods of lower priority that are on a node or hold devices in pools that the
// node sees.
func (s *Snapshot) lowerOn(pod *v1.Pod, node string) []*v1.Pod {
	seen := make(map[*resourceapi.ResourceClaim]bool)
	if n := s.nodes.get(node); n != nil {
		for _, pool := range s.PoolsOn(n) {
			for _, use := range s.usage.OfPool(pool).All() {
				for _, holder := range use.Holders {
					seen[s.claims.get(holder.Namespace+"/"+holder.Name)] = true
				}
				for _, share := range use.Shares {
					seen[s.claims.get(share.Holder.Namespace+"/"+share.Holder.Name)] = true
				}
			}
		}
	}
	var lower []*v1.Pod
	for other := range s.pods.all() {
		if !isOnNode(other) || corev1helpers.PodPriority(other) >= corev1helpers.PodPriority(pod) {
			continue
		}
		if other.Spec.NodeName == node || slices.ContainsFunc(s.ClaimsOf(other), func(c *resourceapi.ResourceClaim) bool { return seen[c] }) {
			lower = append(lower, other)
		}
	}
	return lower
}

func (s *Snapshot) fitsWithout(ctx context.Context, pod *v1.Pod, node string, gone map[string]bool) (bool, error) {
	removal := Removal{}
	for key := range gone {
		removal.Pods = append(removal.Pods, key)
	}
	slices.Sort(removal.Pods)
	world, err := s.Without(removal)
	if err != nil {
		return false, err
	}
	answer, err := world.FitOn(ctx, pod, node)
	if err != nil {
		return false, err
	}
	return len(answer.Plans) == 1, nil
}
