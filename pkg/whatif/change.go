package whatif

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Removal names the objects that Without removes, by namespace/name or by name.
type Removal struct {
	// Claims are removed together with their allocations.
	Claims []string
	// Pods are removed, and claims without other consumers are released.
	Pods []string
	// Nodes are removed together with their pods.
	Nodes []string
}

// With returns a world with more objects. An object replaces one of the same name. The cost depends
// on the number of changes; with DeviceTaintRules it is that of New.
func (s *Snapshot) With(more Objects) *Snapshot {
	if len(more.TaintRules) > 0 {
		return New(s.objects().and(more), s.world.options)
	}
	after := *s
	after.nodes = s.nodes.with(byKey[v1.Node](more.Nodes))
	after.templates = s.templates.with(byKey(more.Templates))
	after.extra = s.world.withSlices(s.extra, more.Slices)
	after.missing = append(s.missing[:len(s.missing):len(s.missing)], more.Missing...)
	if len(more.Classes) > 0 {
		after.classes = s.classes.with(byKey(identified(more.Classes, true)))
		solver := *s.solver
		solver.Classes = (*classes)(&after)
		after.solver = &solver
	}
	after.exchangeClaims(byKey(storedClaims(more.Claims)))
	after.exchangePods(byKey(more.Pods))
	return &after
}

// Without returns a world without the given objects. It fails for names that do not exist.
func (s *Snapshot) Without(gone Removal) (*Snapshot, error) {
	after := *s
	pods := make(map[string]*v1.Pod)
	for _, key := range gone.Pods {
		if s.pods.get(key) == nil {
			return nil, fmt.Errorf("there is no pod %s to leave out; name it as namespace/name", key)
		}
		pods[key] = nil
	}
	nodes := make(map[string]*v1.Node)
	for _, name := range gone.Nodes {
		if s.nodes.get(name) == nil {
			return nil, fmt.Errorf("there is no node %s to leave out", name)
		}
		nodes[name] = nil
	}
	if len(nodes) > 0 {
		for pod := range s.pods.all() {
			if _, without := nodes[pod.Spec.NodeName]; without {
				pods[Key(pod)] = nil
			}
		}
	}
	claims := make(map[string]*resourceapi.ResourceClaim)
	for _, key := range gone.Claims {
		if s.claims.get(key) == nil {
			return nil, fmt.Errorf("there is no claim %s to leave out; name it as namespace/name", key)
		}
		claims[key] = nil
	}
	after.nodes = s.nodes.with(nodes)
	after.exchangePods(pods)
	maps.Copy(claims, after.released(s, pods))
	after.exchangeClaims(claims)
	return &after, nil
}

// released returns the claims without consumers once some pods are gone: nil for claims that are
// deleted with a pod, the others without their allocation.
func (s *Snapshot) released(before *Snapshot, gone map[string]*v1.Pod) map[string]*resourceapi.ResourceClaim {
	claims := make(map[string]*resourceapi.ResourceClaim)
	for key := range gone {
		pod := before.pods.get(key)
		for _, claim := range before.ClaimsOf(pod) {
			if claim.Status.Allocation == nil || s.inUse(claim) {
				continue
			}
			claims[Key(claim)] = nil
			if !isOwnedBy(claim, pod) {
				free := claim.DeepCopy()
				free.Status = resourceapi.ResourceClaimStatus{}
				claims[Key(claim)] = free
			}
		}
	}
	return claims
}

// inUse reports whether a claim is reserved for a consumer that exists. Unknown consumers count.
func (s *Snapshot) inUse(claim *resourceapi.ResourceClaim) bool {
	for _, consumer := range claim.Status.ReservedFor {
		if s.needs(claim.Namespace, &consumer) {
			return true
		}
	}
	return false
}

func (s *Snapshot) needs(namespace string, consumer *resourceapi.ResourceClaimConsumerReference) bool {
	switch {
	case consumer.APIGroup == "" && consumer.Resource == "pods":
		key := namespace + "/" + consumer.Name
		if _, changed := s.pods.change[key]; !changed && s.pods.base[key] == nil {
			return true
		}
		pod := s.pods.get(key)
		return pod != nil && pod.UID == consumer.UID && !hasEnded(pod)
	case consumer.Resource == "podgroups":
		for pod := range s.pods.all() {
			if pod.Namespace == namespace && groupOf(pod) == consumer.Name && !hasEnded(pod) {
				return true
			}
		}
		return false
	}
	return true
}

func groupOf(pod *v1.Pod) string {
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		return *group.PodGroupName
	}
	return ""
}

// exchangePods replaces pods, and updates the resources taken on their nodes.
func (s *Snapshot) exchangePods(pods map[string]*v1.Pod) {
	taken := maps.Clone(s.taken)
	if taken == nil {
		taken = make(map[string]room)
	}
	for key, pod := range pods {
		if old := s.pods.get(key); old != nil && isOnNode(old) {
			taken[old.Spec.NodeName] = taken[old.Spec.NodeName].minus(takenBy(old, nil))
		}
		if pod != nil && isOnNode(pod) {
			taken[pod.Spec.NodeName] = taken[pod.Spec.NodeName].minus(takenBy(pod, nil).negated())
		}
	}
	s.taken = taken
	s.pods = s.pods.with(pods)
}

// exchangeClaims replaces claims, and updates the usage of devices.
func (s *Snapshot) exchangeClaims(claims map[string]*resourceapi.ResourceClaim) {
	var gone, held []ledger.Use
	for _, key := range slices.Sorted(maps.Keys(claims)) {
		claim := claims[key]
		if old := s.claims.get(key); old != nil && old.Status.Allocation != nil {
			gone = append(gone, useOf(old))
		}
		if claim != nil && claim.Status.Allocation != nil {
			held = append(held, useOf(claim))
		}
	}
	if len(gone)+len(held) > 0 {
		s.usage = s.usage.with(gone, held)
	}
	s.claims = s.claims.with(claims)
}

// objects returns all objects of the snapshot.
func (s *Snapshot) objects() Objects {
	all := Objects{
		Nodes: s.Nodes(), Claims: s.Claims(), Classes: s.Classes(), Pods: s.Pods(), TaintRules: s.world.rules, Missing: s.missing,
	}
	for template := range s.templates.all() {
		all.Templates = append(all.Templates, template)
	}
	for _, slice := range s.world.slices {
		if !s.extra.has(poolOf(slice)) {
			all.Slices = append(all.Slices, slice)
		}
	}
	if s.extra != nil {
		for _, slices := range s.extra.pools {
			all.Slices = append(all.Slices, slices...)
		}
	}
	return all
}

// identified gives classes without a UID one, because caches distinguish requests by it. Such
// classes do not come from a server. If the flag is set, all classes get one, because the world has
// caches already: an edited class still has the UID and version of the original.
func identified(all []*resourceapi.DeviceClass, anew bool) []*resourceapi.DeviceClass {
	result := make([]*resourceapi.DeviceClass, len(all))
	for i, class := range all {
		if class.UID == "" || anew {
			hash := fnv.New64a()
			spec, _ := class.Spec.Marshal()
			hash.Write(spec)
			class = class.DeepCopy()
			class.UID = types.UID("spec-" + strconv.FormatUint(hash.Sum64(), 16))
		}
		result[i] = class
	}
	return result
}
