package classicdra

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// Resolver finds the requests of claims that do not contain them, because class and parameters do (v1alpha2). See
// api.Resolver.
type Resolver interface {
	Resolve(*resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error)
	SuitableNodes(*resourceapi.ResourceClaim) *v1.NodeSelector
	OnChange(func(concerns func(*resourceapi.ResourceClaim) bool))
}

// NewResolving returns the mode for servers that may have such claims. It wakes pods that wait for a class or
// parameters when these arrive.
func NewResolving(scheduler Scheduler, resolver Resolver) *Mode {
	resolver.OnChange(func(concerns func(*resourceapi.ResourceClaim) bool) {
		for _, entry := range scheduler.Waiting.All() {
			missing, _ := entry.Wanted()
			if slices.ContainsFunc(missing, concerns) {
				scheduler.Waker.Wake(entry)
			} else {
				entry.MissIfOpen()
			}
		}
	})
	return &Mode{scheduler: scheduler, resolver: resolver}
}

// Resolves reports whether some claims may not contain their requests.
func (m *Mode) Resolves() bool { return m != nil && m.resolver != nil }

// Resolve returns a claim with its requests. Call it only if Resolves is true.
func (m *Mode) Resolve(claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	return m.resolver.Resolve(claim)
}

// Resolved returns claims with their requests; it returns a claim unchanged if these are unknown.
func (m *Mode) Resolved(claims []*resourceapi.ResourceClaim) []*resourceapi.ResourceClaim {
	if !m.Resolves() {
		return claims
	}
	resolved := slices.Clone(claims)
	for i, claim := range claims {
		if known, err := m.Resolve(claim); err == nil {
			resolved[i] = known
		}
	}
	return resolved
}

// SuitableNodes returns the nodes to which its class restricts a claim without allocation, nil if there is no
// restriction.
func (m *Mode) SuitableNodes(claim *resourceapi.ResourceClaim) (*nodeaffinity.NodeSelector, error) {
	if !m.Resolves() {
		return nil, nil
	}
	terms := m.resolver.SuitableNodes(claim)
	if terms == nil {
		return nil, nil
	}
	nodes, err := nodeaffinity.NewNodeSelector(terms)
	if err != nil {
		return nil, fmt.Errorf("claim %s: the suitableNodes of its class cannot be parsed: %w", dra.Of(claim), err)
	}
	return nodes, nil
}
