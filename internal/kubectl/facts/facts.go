package facts

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// DeviceID identifies a device.
type DeviceID struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
}

func (id DeviceID) String() string { return id.Driver + "/" + id.Pool + "/" + id.Device }

func (id DeviceID) pool() inventory.PoolID {
	return inventory.PoolID{Driver: id.Driver, Name: id.Pool}
}

func idOf(result *resourceapi.DeviceRequestAllocationResult) DeviceID {
	return DeviceID{result.Driver, result.Pool, result.Device}
}

// Facts answers questions about a snapshot. It is immutable and safe for concurrent use. Results are copies, except
// for parts of API objects.
type Facts struct {
	snapshot *whatif.Snapshot
	claims   []Claim
	byUID    map[types.UID]*Claim
	// admins lists claims with admin access by device (KEP-5018); the ledger does not count it as use.
	admins map[DeviceID][]*Claim
	groups map[types.NamespacedName][]*v1.Pod
	// unknown lists resources that could not be read, or not completely.
	unknown map[string]bool
}

// Names of resources in whatif.Missing.
const (
	claimsResource = "resourceclaims.resource.k8s.io"
	slicesResource = "resourceslices.resource.k8s.io"
	podsResource   = "pods"
)

// Of collects the facts of a snapshot. The time that it takes grows with the number of claims and pods.
func Of(s *whatif.Snapshot) *Facts {
	f := &Facts{
		snapshot: s, byUID: make(map[types.UID]*Claim), admins: make(map[DeviceID][]*Claim),
		groups: make(map[types.NamespacedName][]*v1.Pod), unknown: make(map[string]bool),
	}
	for _, missing := range s.Missing() {
		f.unknown[missing.Resource] = true
	}
	for _, pod := range s.Pods() {
		if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
			key := types.NamespacedName{Namespace: pod.Namespace, Name: *group.PodGroupName}
			f.groups[key] = append(f.groups[key], pod)
		}
	}
	all := s.Claims()
	f.claims = make([]Claim, len(all))
	for i, claim := range all {
		f.claims[i] = f.claim(claim)
		f.byUID[claim.UID] = &f.claims[i]
	}
	for i := range f.claims {
		for _, held := range f.claims[i].Devices {
			if held.AdminAccess {
				f.admins[held.DeviceID] = append(f.admins[held.DeviceID], &f.claims[i])
			}
		}
	}
	return f
}

// Snapshot returns the snapshot that the facts describe.
func (f *Facts) Snapshot() *whatif.Snapshot { return f.snapshot }

// UsageUnknown reports whether some claims could not be read: then a device without a known holder may be in use.
func (f *Facts) UsageUnknown() bool { return f.unknown[claimsResource] }

// DevicesUnknown reports whether some devices could not be read.
func (f *Facts) DevicesUnknown() bool { return f.unknown[slicesResource] }

// PodsUnknown reports whether some pods could not be read.
func (f *Facts) PodsUnknown() bool { return f.unknown[podsResource] }

func (f *Facts) usage(pool *inventory.NodePool) *ledger.PoolUsage {
	return ledger.Of(f.snapshot.Usage(), pool)
}

// Reach says which nodes can use a device: one node, all nodes, or those that a selector matches.
type Reach struct {
	Node         string `json:"node,omitempty"`
	AllNodes     bool   `json:"allNodes,omitempty"`
	NodeSelector string `json:"nodeSelector,omitempty"`
}

// IsShared reports whether the device is for more than one node.
func (p Reach) IsShared() bool { return p.Node == "" }

func (p Reach) String() string {
	switch {
	case p.Node != "":
		return p.Node
	case p.AllNodes:
		return "all nodes"
	case p.NodeSelector != "":
		return p.NodeSelector
	}
	return "no node"
}

// reachOf returns the reach of a device, from its slice or from the device itself (perDeviceNodeSelection of
// KEP-4815).
func reachOf(device *inventory.Device) Reach {
	spec := &device.Slice.Spec
	if ptr.Deref(spec.PerDeviceNodeSelection, false) {
		return newReach(device.NodeName, device.AllNodes, device.NodeSelector)
	}
	return newReach(spec.NodeName, spec.AllNodes, spec.NodeSelector)
}

func newReach(node *string, all *bool, selector *v1.NodeSelector) Reach {
	switch {
	case ptr.Deref(node, "") != "":
		return Reach{Node: *node}
	case ptr.Deref(all, false):
		return Reach{AllNodes: true}
	case selector != nil:
		return Reach{NodeSelector: inWords(selector)}
	}
	return Reach{}
}

// inWords formats a node selector in kubectl's syntax; alternative terms are joined by "or".
func inWords(selector *v1.NodeSelector) string {
	var terms []string
	for i := range selector.NodeSelectorTerms {
		var parts []string
		for _, requirements := range [][]v1.NodeSelectorRequirement{selector.NodeSelectorTerms[i].MatchExpressions, selector.NodeSelectorTerms[i].MatchFields} {
			for j := range requirements {
				parts = append(parts, requirement(&requirements[j]))
			}
		}
		terms = append(terms, strings.Join(parts, ","))
	}
	return strings.Join(terms, " or ")
}

func requirement(r *v1.NodeSelectorRequirement) string {
	values := strings.Join(r.Values, ",")
	switch r.Operator {
	case v1.NodeSelectorOpIn:
		if len(r.Values) == 1 {
			return r.Key + "=" + values
		}
		return r.Key + " in (" + values + ")"
	case v1.NodeSelectorOpNotIn:
		return r.Key + " notin (" + values + ")"
	case v1.NodeSelectorOpExists:
		return r.Key
	case v1.NodeSelectorOpDoesNotExist:
		return "!" + r.Key
	case v1.NodeSelectorOpGt:
		return r.Key + ">" + values
	case v1.NodeSelectorOpLt:
		return r.Key + "<" + values
	}
	return r.Key + " " + string(r.Operator) + " " + values
}
