package waste

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// Limits of what Room tries.
const (
	// MovesAtMost is the largest number of pods that may have to move.
	MovesAtMost = 3
	// questionsAtMost is how many sets of pods are tried.
	questionsAtMost = 20_000
)

// Advice is how to make room for a pod.
type Advice struct {
	// Fits is true if there is room already.
	Fits bool `json:"fits"`
	// Node is where the pod would go once Moves are made, "" if no advice was found.
	Node string `json:"node,omitempty"`
	// Moves are the pods that have to move for it.
	Moves []Move `json:"moves,omitempty"`
	// Fewest is true if no smaller number of moves would do, or none at all if there is no advice: within MovesAtMost, of pods
	// of one node, and with each pod moved once. It is false if there was too much to try.
	Fewest bool `json:"fewest"`
	// Tried is how many sets of pods were tried.
	Tried int `json:"tried"`
}

// Move is a pod that would be ended and started on another node.
type Move struct {
	Pod  string `json:"pod"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Room finds the fewest moves that make room for a pod. The error is that of the context.
func Room(ctx context.Context, s *whatif.Snapshot, pod *v1.Pod) (*Advice, error) {
	answer, err := s.Fit(ctx, pod)
	if err != nil {
		return nil, err
	}
	if len(answer.Plans) == 1 {
		return &Advice{Fits: true, Node: answer.Plans[0].Node, Fewest: true}, nil
	}
	r := &rearranging{snapshot: s, pod: pod, users: users(s), advice: Advice{Fewest: true}}
	for moves := 1; moves <= MovesAtMost && r.advice.Node == ""; moves++ {
		for _, node := range s.Nodes() {
			if done, err := r.on(ctx, node.Name, moves); done || err != nil {
				return &r.advice, err
			}
		}
	}
	return &r.advice, nil
}

// rearranging is the search for moves.
type rearranging struct {
	snapshot *whatif.Snapshot
	pod      *v1.Pod
	// users are the pods with devices, by node.
	users  map[string][]*v1.Pod
	advice Advice
}

// users are the pods that hold devices, by node, in the order of their names.
func users(s *whatif.Snapshot) map[string][]*v1.Pod {
	all := make(map[string][]*v1.Pod)
	for _, pod := range s.Pods() {
		held := slices.ContainsFunc(s.ClaimsOf(pod), func(c *resourceapi.ResourceClaim) bool { return c.Status.Allocation != nil })
		if held && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			all[pod.Spec.NodeName] = append(all[pod.Spec.NodeName], pod)
		}
	}
	for _, pods := range all {
		slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(whatif.Key(a), whatif.Key(b)) })
	}
	return all
}

// on tries to move so many pods away from a node. It is done if that makes room, or if there is too much to try.
func (r *rearranging) on(ctx context.Context, node string, moves int) (done bool, err error) {
	pods := r.users[node]
	if len(pods) < moves {
		return false, nil
	}
	chosen := make([]int, moves)
	for i := range chosen {
		chosen[i] = i
	}
	for {
		if r.advice.Tried++; r.advice.Tried > questionsAtMost {
			r.advice.Fewest = false
			return true, nil
		}
		if done, err := r.try(ctx, node, pods, chosen); done || err != nil {
			return done, err
		}
		if !next(chosen, len(pods)) {
			return false, nil
		}
	}
}

// next makes the next choice of numbers below n, in ascending order; false if that was the last one.
func next(chosen []int, n int) bool {
	for i := len(chosen) - 1; i >= 0; i-- {
		if chosen[i] < n-len(chosen)+i {
			chosen[i]++
			for j := i + 1; j < len(chosen); j++ {
				chosen[j] = chosen[j-1] + 1
			}
			return true
		}
	}
	return false
}

// try moves the chosen pods.
func (r *rearranging) try(ctx context.Context, node string, pods []*v1.Pod, chosen []int) (bool, error) {
	var gone whatif.Removal
	var again []*v1.Pod
	for _, i := range chosen {
		gone.Pods = append(gone.Pods, whatif.Key(pods[i]))
		again = append(again, started(pods[i]))
	}
	world, err := r.snapshot.Without(gone)
	if err != nil {
		return false, fmt.Errorf("try to move %v: %w", gone.Pods, err)
	}
	here, err := world.FitOn(ctx, r.pod, node)
	if err != nil || len(here.Plans) == 0 {
		return false, err
	}
	elsewhere, err := inAnyOrder(ctx, here.After, again)
	if err != nil || elsewhere == nil {
		return false, err
	}
	r.advice.Node = node
	for i := range elsewhere.Plans {
		plan := &elsewhere.Plans[i]
		r.advice.Moves = append(r.advice.Moves, Move{Pod: whatif.Key(plan.Pod), From: node, To: plan.Node})
	}
	return true, nil
}

// inAnyOrder places all pods in an order in which they fit, nil if there is none.
func inAnyOrder(ctx context.Context, s *whatif.Snapshot, pods []*v1.Pod) (*whatif.Answer, error) {
	var found *whatif.Answer
	var failed error
	permute(pods, 0, func() bool {
		answer, err := s.Fit(ctx, pods...)
		if err == nil && len(answer.Plans) == len(pods) {
			found = answer
		}
		failed = err
		return found != nil || err != nil
	})
	return found, failed
}

// permute puts the pods from a position on into all orders, until done says that it is enough.
func permute(pods []*v1.Pod, from int, done func() bool) bool {
	if from >= len(pods)-1 {
		return done()
	}
	for i := from; i < len(pods); i++ {
		pods[from], pods[i] = pods[i], pods[from]
		if permute(pods, from+1, done) {
			return true
		}
		pods[from], pods[i] = pods[i], pods[from]
	}
	return false
}

// started is a pod as it was before it got a node.
func started(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = ""
	pod.Status = v1.PodStatus{}
	return pod
}
