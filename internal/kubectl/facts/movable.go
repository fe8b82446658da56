package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/quartermaster-dra/quartermaster/internal/quantity"
	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// mover searches for moves of other pods that make room for a pod.
type mover struct {
	pod *v1.Pod
	// limit bounds the number of checks whether a pod fits on a node.
	limit int
	// base is the snapshot plus a template for each claim of a movable pod: a restarted pod would get a claim like
	// it.
	base  *whatif.Snapshot
	nodes []*v1.Node
	// seen counts the nodes that reach a pool.
	seen map[inventory.PoolID]int
	// onNodes lists the movable pods, and fixed the names of unmovable pods with devices, by node. of maps claims to
	// their movable pod.
	onNodes map[string][]*movable
	fixed   map[string][]string
	of      map[string]*movable
	// pods counts the pods of each node, and room is the number of pods that the node allows.
	pods, room map[string]int
	elsewhere  map[string]map[string]bool

	questions, tried int
	doubtful         bool
}

// movable is a pod that can be moved.
type movable struct {
	pod       *v1.Pod
	key, from string
	// The pod as it would restart, and a key that is equal for pods that ask for the same.
	anew  *v1.Pod
	alike string
	// templates are the templates of its claims.
	templates []*resourceapi.ResourceClaimTemplate
}

func newMover(s *whatif.Snapshot, pod *v1.Pod, limit int) *mover {
	m := &mover{
		pod: pod, limit: limit, nodes: s.Nodes(), seen: make(map[inventory.PoolID]int), onNodes: make(map[string][]*movable), fixed: make(map[string][]string),
		of: make(map[string]*movable), pods: make(map[string]int), room: make(map[string]int), elsewhere: make(map[string]map[string]bool),
	}
	for _, node := range m.nodes {
		for _, pool := range s.PoolsOn(node) {
			m.seen[pool.ID]++
		}
		m.room[node.Name] = int(quantity.Value(*node.Status.Allocatable.Pods()))
	}
	var anew []*resourceapi.ResourceClaimTemplate
	for _, other := range s.Pods() {
		if other.Spec.NodeName == "" || other.Status.Phase == v1.PodSucceeded || other.Status.Phase == v1.PodFailed {
			continue
		}
		m.pods[other.Spec.NodeName]++
		if whatif.Key(other) == whatif.Key(pod) {
			continue
		}
		one := m.movable(s, other)
		if one == nil && len(s.ClaimsOf(other)) == 0 {
			continue
		}
		if one == nil {
			m.fixed[other.Spec.NodeName] = append(m.fixed[other.Spec.NodeName], whatif.Key(other))
			continue
		}
		m.onNodes[one.from] = append(m.onNodes[one.from], one)
		anew = append(anew, one.templates...)
		for _, claim := range s.ClaimsOf(other) {
			m.of[whatif.Key(claim)] = one
		}
	}
	m.base = s.With(whatif.Objects{Templates: anew})
	return m
}

// sharesPools reports whether a node reaches a pool that other nodes reach too.
func (m *mover) sharesPools(node *v1.Node) bool {
	return slices.ContainsFunc(m.base.PoolsOn(node), func(pool *inventory.NodePool) bool { return m.seen[pool.ID] > 1 })
}

// movable returns the pod as a movable, nil if it must not be moved.
func (m *mover) movable(s *whatif.Snapshot, pod *v1.Pod) *movable {
	_, isStatic := pod.Annotations[v1.MirrorPodAnnotationKey]
	controller := metav1.GetControllerOf(pod)
	if isStatic || pod.DeletionTimestamp != nil || controller != nil && (controller.Kind == "DaemonSet" || controller.Kind == "Node") {
		return nil
	}
	claims := s.ClaimsOf(pod)
	one := &movable{pod: pod, key: whatif.Key(pod), from: pod.Spec.NodeName, anew: pod.DeepCopy()}
	one.anew.Name, one.anew.Namespace, one.anew.UID = "moved", m.pod.Namespace, ""
	one.anew.Spec.NodeName, one.anew.Spec.ResourceClaims, one.anew.Status = "", nil, v1.PodStatus{}
	extended := ""
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		extended = status.ResourceClaimName
	}
	for i, claim := range claims {
		for _, consumer := range claim.Status.ReservedFor {
			if consumer.UID != pod.UID {
				return nil
			}
		}
		if claim.Name == extended {
			continue // The containers of the restarted pod ask for the extended resource.
		}
		name := fmt.Sprintf("moved-%s-%s-%d", pod.Namespace, pod.Name, i)
		one.templates = append(one.templates, template(m.pod.Namespace, name, claim.Spec))
		one.anew.Spec.ResourceClaims = append(one.anew.Spec.ResourceClaims, v1.PodResourceClaim{
			Name: fmt.Sprintf("claim-%d", i), ResourceClaimTemplateName: &name,
		})
	}
	one.alike = one.likeness()
	return one
}

// likeness returns a key that is equal for pods that fit on the same nodes.
func (m *movable) likeness() string {
	specs := make([]*resourceapi.ResourceClaimSpec, len(m.templates))
	for i, template := range m.templates {
		specs[i] = &template.Spec.Spec
	}
	text, err := json.Marshal([]any{specs, resource.PodRequests(m.pod, resource.PodResourcesOptions{}), m.pod.Spec.Tolerations, m.pod.Spec.NodeSelector, m.pod.Spec.Affinity})
	if err != nil {
		return m.key
	}
	return string(text)
}

// candidates returns the movable pods that may be in the way on a node: those on it, and those with devices that it
// reaches. fixed names the pods that cannot be moved.
func (m *mover) candidates(node string) (all []*movable, fixed []string) {
	all = slices.Clone(m.onNodes[node])
	for _, pool := range m.base.PoolsOn(m.base.Node(node)) {
		if m.seen[pool.ID] < 2 {
			continue
		}
		for _, claim := range claimsIn(m.base, pool) {
			if one := m.of[claim]; one != nil && one.from != node && !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all, m.fixed[node]
}

// claimsIn returns the claims that hold devices of a pool.
func claimsIn(s *whatif.Snapshot, pool *inventory.NodePool) []string {
	var claims []string
	for _, use := range ledger.Of(s.Usage(), pool).All() {
		for _, holder := range use.Holders {
			claims = append(claims, holder.Namespace+"/"+holder.Name)
		}
		for _, share := range use.Shares {
			claims = append(claims, share.Holder.Namespace+"/"+share.Holder.Name)
		}
	}
	slices.Sort(claims)
	return slices.Compact(claims)
}

// relevant leaves out pods without devices if the node has enough of everything else. Then it also has enough for
// pods with devices that restart there, because these already count there.
func (m *mover) relevant(ctx context.Context, node string, candidates []*movable) ([]*movable, error) {
	if len(m.pod.Spec.ResourceClaims) == 0 || asksForExtended(m.pod) {
		return candidates, nil
	}
	without := m.pod.DeepCopy()
	without.Spec.ResourceClaims = nil
	enough, err := m.fits(ctx, m.base, without, node)
	if err != nil || !enough {
		return candidates, err
	}
	return slices.DeleteFunc(candidates, func(one *movable) bool { return len(m.base.ClaimsOf(one.pod)) == 0 }), nil
}

// asksForExtended reports whether the pod asks for an extended resource, which devices may back (KEP-5004).
func asksForExtended(pod *v1.Pod) bool {
	for name := range resource.PodRequests(pod, resource.PodResourcesOptions{}) {
		if strings.Contains(string(name), "/") {
			return true
		}
	}
	return false
}

func template(namespace, name string, spec resourceapi.ResourceClaimSpec) *resourceapi.ResourceClaimTemplate {
	return &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec},
	}
}
