package scenario

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// ReservedFor wants each claim of the app to have exactly count consumers.
func ReservedFor(count int) Check {
	return eachClaim(func(claim *resourceapi.ResourceClaim) error {
		if found := len(claim.Status.ReservedFor); found != count {
			return fmt.Errorf("is reserved for %d consumers, want %d", found, count)
		}
		return nil
	})
}

// Consumes wants each device to be a separate share that consumes an amount of a capacity (KEP-5075).
func Consumes(capacity resourceapi.QualifiedName, amount string) Check {
	return eachResult(func(_ *AppPods, result resourceapi.DeviceRequestAllocationResult) error {
		consumed := result.ConsumedCapacity[capacity]
		if result.ShareID == nil || consumed.String() != amount {
			return fmt.Errorf("consumes %s of %s (share %v), want %s of a share of its own", consumed.String(), capacity, result.ShareID, amount)
		}
		return nil
	})
}

// AdminAccess wants all devices to be allocated with admin access, or none.
func AdminAccess(want bool) Check {
	return eachResult(func(_ *AppPods, result resourceapi.DeviceRequestAllocationResult) error {
		if admin := result.AdminAccess != nil && *result.AdminAccess; admin != want {
			return fmt.Errorf("has admin access %t, want %t", admin, want)
		}
		return nil
	})
}

// Tolerates wants the request's toleration of a taint key to be recorded with
// every device, for the controller that evicts pods (KEP-5055).
func Tolerates(key string) Check {
	return eachResult(func(_ *AppPods, result resourceapi.DeviceRequestAllocationResult) error {
		for _, toleration := range result.Tolerations {
			if toleration.Key == key {
				return nil
			}
		}
		return fmt.Errorf("was allocated without the toleration of %s", key)
	})
}

// ConfigEntry is an entry of the configuration in a claim's allocation.
type ConfigEntry struct {
	Source     resourceapi.AllocationConfigSource
	Requests   []string
	Driver     string
	Parameters string
}

// Configs wants the allocation of each claim to hold exactly these entries in
// this order: a later one overrides an earlier one, so those of classes come
// first.
func Configs(want ...ConfigEntry) Check {
	return eachClaim(func(claim *resourceapi.ResourceClaim) error {
		var found []string
		for _, config := range claim.Status.Allocation.Devices.Config {
			found = append(found, configText(ConfigEntry{
				Source:     config.Source,
				Requests:   config.Requests,
				Driver:     config.Opaque.Driver,
				Parameters: string(config.Opaque.Parameters.Raw),
			}))
		}
		var wanted []string
		for _, entry := range want {
			wanted = append(wanted, configText(entry))
		}
		if strings.Join(found, "; ") != strings.Join(wanted, "; ") {
			return fmt.Errorf("is allocated with the configuration %q, want %q", found, wanted)
		}
		return nil
	})
}

func configText(entry ConfigEntry) string {
	return fmt.Sprintf("%s %v %s %s", entry.Source, entry.Requests, entry.Driver, entry.Parameters)
}

// ReachableFrom wants each allocation to be limited to nodes by a requirement
// on a label (or on the node's name, as "metadata.name").
func ReachableFrom(key string, values ...string) Check {
	return eachClaim(func(claim *resourceapi.ResourceClaim) error {
		selector := claim.Status.Allocation.NodeSelector
		if selector == nil {
			return fmt.Errorf("is allocated for all nodes, want %s in %v", key, values)
		}
		for _, term := range selector.NodeSelectorTerms {
			for _, requirement := range append(term.MatchExpressions, term.MatchFields...) {
				if requirementText(requirement) == key+" In "+strings.Join(values, ",") {
					return nil
				}
			}
		}
		return fmt.Errorf("is allocated for the nodes %s, want %s in %v", selector, key, values)
	})
}

func requirementText(requirement corev1.NodeSelectorRequirement) string {
	return fmt.Sprintf("%s %s %s", requirement.Key, requirement.Operator, strings.Join(requirement.Values, ","))
}

// ReachableFromAllNodes wants the allocations not to be limited to nodes.
func ReachableFromAllNodes() Check {
	return eachClaim(func(claim *resourceapi.ResourceClaim) error {
		if selector := claim.Status.Allocation.NodeSelector; selector != nil {
			return fmt.Errorf("is allocated for the nodes %s, want all nodes", selector)
		}
		return nil
	})
}

// eachClaim applies a check to all allocated claims of all pods. Only those of
// finished pods may be without an allocation here.
func eachClaim(check func(*resourceapi.ResourceClaim) error) Check {
	return func(g *AppPods) error {
		return g.each(func(m Member) error {
			for _, claim := range m.Claims {
				if claim.Status.Allocation == nil {
					continue
				}
				if err := check(claim); err != nil {
					return fmt.Errorf("has claim %s, which %w", claim.Name, err)
				}
			}
			return nil
		})
	}
}
