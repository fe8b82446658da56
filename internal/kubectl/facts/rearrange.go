package facts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// rearrangement finds nodes for the pods that move away from a node. It checks the pods of one node together, as one
// pod with all their claims: then the result does not depend on their order.
type rearrangement struct {
	*mover
	// world is the snapshot without the moved pods, and node the node that the pod would get.
	world *whatif.Snapshot
	node  string
	// gone counts the moved pods by their old node.
	gone map[string]int
	// groups lists the moved pods by their new node.
	groups map[string][]*movable
}

// assign finds a node for each pod, and backtracks if later pods do not fit.
func (r *rearrangement) assign(ctx context.Context, left []*movable) (bool, error) {
	if len(left) == 0 {
		return r.holds(ctx)
	}
	one := left[0]
	for _, node := range r.nodes {
		ok, err := r.welcome(ctx, one, node.Name)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		r.groups[node.Name] = append(r.groups[node.Name], one)
		if ok, err = r.together(ctx, node.Name); err == nil && ok {
			ok, err = r.assign(ctx, left[1:])
		}
		if ok || err != nil {
			return ok, err
		}
		r.groups[node.Name] = r.groups[node.Name][:len(r.groups[node.Name])-1]
	}
	return false, nil
}

// welcome reports whether a pod alone would fit on a node. It caches the answer for nodes that no pod leaves and that
// share no devices: there it is the same for all rearrangements, and for pods that are alike.
func (r *rearrangement) welcome(ctx context.Context, one *movable, node string) (bool, error) {
	if r.gone[node] > 0 || r.sharesPools(r.base.Node(node)) {
		return r.fits(ctx, r.world, one.anew, node)
	}
	known := r.elsewhere[one.alike]
	if known == nil {
		known = make(map[string]bool)
		r.elsewhere[one.alike] = known
	}
	if ok, found := known[node]; found {
		return ok, nil
	}
	ok, err := r.fits(ctx, r.base, one.anew, node)
	if err == nil {
		known[node] = ok
	}
	return ok, err
}

// together reports whether all pods that get a node fit there together.
func (r *rearrangement) together(ctx context.Context, node string) (bool, error) {
	group := r.groups[node]
	if node != r.node && len(group) == 1 {
		return true, nil
	}
	all := len(group)
	if node == r.node {
		all++
	}
	if r.pods[node]-r.gone[node]+all > r.room[node] {
		return false, nil
	}
	return r.fits(ctx, r.world, r.merged(node), node)
}

// merged returns one pod with everything that a node gets. Its taints are tolerated, because welcome has checked each
// pod before.
func (r *rearrangement) merged(node string) *v1.Pod {
	all := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.pod.Namespace, Name: "all-" + node}}
	all.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	add := func(pod *v1.Pod, prefix string) {
		all.Spec.Containers = append(all.Spec.Containers, v1.Container{
			Name: prefix, Resources: v1.ResourceRequirements{Requests: resource.PodRequests(pod, resource.PodResourcesOptions{})},
		})
		for i, reference := range pod.Spec.ResourceClaims {
			reference.Name = fmt.Sprintf("%s-%d", prefix, i)
			all.Spec.ResourceClaims = append(all.Spec.ResourceClaims, reference)
		}
	}
	if node == r.node {
		add(r.pod, "pod")
		all.Status.ResourceClaimStatuses = r.generated("pod")
	}
	for i, one := range r.groups[node] {
		add(one.anew, fmt.Sprintf("moved-%d", i))
	}
	return all
}

// generated returns the claims that already exist for the pod's templates, under the names of their references in
// merged.
func (r *rearrangement) generated(prefix string) []v1.PodResourceClaimStatus {
	var all []v1.PodResourceClaimStatus
	for i, reference := range r.pod.Spec.ResourceClaims {
		for _, status := range r.pod.Status.ResourceClaimStatuses {
			if status.Name == reference.Name {
				status.Name = fmt.Sprintf("%s-%d", prefix, i)
				all = append(all, status)
			}
		}
	}
	return all
}

// holds reports whether the groups fit one after the other. If nodes share devices, separate checks of the groups are
// not enough. A no is doubtful, because another choice of devices might fit.
func (r *rearrangement) holds(ctx context.Context) (bool, error) {
	nodes := []string{r.node}
	shared := false
	for _, node := range r.nodes {
		if len(r.groups[node.Name]) > 0 && node.Name != r.node {
			nodes = append(nodes, node.Name)
		}
	}
	for _, node := range nodes {
		shared = shared || r.sharesPools(r.base.Node(node))
	}
	if !shared || len(nodes) == 1 {
		return true, nil
	}
	world := r.world
	for _, node := range nodes {
		if r.questions++; r.questions > r.limit {
			return false, errBound
		}
		placed, err := world.FitOn(ctx, r.merged(node), node)
		if err != nil {
			return false, err
		}
		if len(placed.Plans) == 0 {
			r.doubtful = true
			return false, nil
		}
		world = placed.After
	}
	return true, nil
}

// moves returns the moves of the chosen pods to their new nodes.
func (r *rearrangement) moves(chosen []*movable) []Move {
	var moves []Move
	for _, one := range chosen {
		for node, group := range r.groups {
			if slices.Contains(group, one) {
				moves = append(moves, Move{Pod: one.key, From: one.from, To: node, Controller: controllerOf(one.pod)})
			}
		}
	}
	return moves
}

func controllerOf(pod *v1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return strings.ToLower(owner.Kind) + "/" + owner.Name
	}
	return ""
}
