package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// DevicesEach wants every pod to have exactly count devices, over all its
// claims.
func DevicesEach(count int) Check {
	return func(g *AppPods) error {
		return g.each(func(m Member) error {
			if found := len(m.Results()); found != count {
				return fmt.Errorf("has %d devices, want %d", found, count)
			}
			return nil
		})
	}
}

// NoDeviceTwice wants no device to be allocated to two claims of the app.
func NoDeviceTwice() Check {
	return func(g *AppPods) error {
		holders := map[string]types.UID{}
		return g.each(func(m Member) error {
			for _, claim := range m.Claims {
				for _, result := range resultsOf(claim) {
					if holder, held := holders[deviceID(result)]; held && holder != claim.UID {
						return fmt.Errorf("has device %s, which another claim of this app holds as well", deviceID(result))
					}
					holders[deviceID(result)] = claim.UID
				}
			}
			return nil
		})
	}
}

// SameDevices wants all pods of the app to have the same devices.
func SameDevices() Check {
	return func(g *AppPods) error {
		var first []string
		return g.each(func(m Member) error {
			var devices []string
			for _, result := range m.Results() {
				devices = append(devices, deviceID(result))
			}
			if first == nil {
				first = devices
			}
			if !slices.Equal(first, devices) {
				return fmt.Errorf("has the devices %q, want those of the first pod, %q", devices, first)
			}
			return nil
		})
	}
}

// FromRequest wants all devices to be allocated for one request; for an
// alternative of a firstAvailable request it is "request/alternative".
func FromRequest(name string) Check {
	return eachResult(func(_ *AppPods, result resourceapi.DeviceRequestAllocationResult) error {
		if result.Request != name {
			return fmt.Errorf("was allocated for request %q, want %q", result.Request, name)
		}
		return nil
	})
}

// ByRequest wants every pod to have the given number of devices for each request.
func ByRequest(want map[string]int) Check {
	return func(g *AppPods) error {
		return g.each(func(m Member) error {
			found := map[string]int{}
			for _, result := range m.Results() {
				found[result.Request]++
			}
			if !maps.Equal(found, want) {
				return fmt.Errorf("has %v devices by request, want %v", found, want)
			}
			return nil
		})
	}
}

// DeviceNames wants the app to have exactly the named devices, in any order
// and each as often as named.
func DeviceNames(names ...string) Check {
	return func(g *AppPods) error {
		var found []string
		for _, member := range g.Members {
			for _, result := range member.Results() {
				found = append(found, result.Device)
			}
		}
		want := slices.Sorted(slices.Values(names))
		slices.Sort(found)
		if !slices.Equal(found, want) {
			return fmt.Errorf("app %s has the devices %q, want %q", g.App, found, want)
		}
		return nil
	}
}

// EveryDevice wants every device to satisfy a condition, described by what.
func EveryDevice(what string, satisfies func(*resourceapi.Device) bool) Check {
	return eachResult(func(g *AppPods, result resourceapi.DeviceRequestAllocationResult) error {
		device := g.snapshot.device(result)
		if device == nil {
			return fmt.Errorf("is in no slice")
		}
		if !satisfies(device) {
			return fmt.Errorf("is not %s", what)
		}
		return nil
	})
}

// OneValueEach wants the devices of each pod to share one value of a string
// attribute.
func OneValueEach(attribute resourceapi.QualifiedName) Check {
	return valuesEach(attribute, "share one value", func(values []string) bool {
		return sets.New(values...).Len() == 1
	})
}

// DistinctValuesEach wants the devices of each pod to differ in an attribute.
func DistinctValuesEach(attribute resourceapi.QualifiedName) Check {
	return valuesEach(attribute, "differ", func(values []string) bool {
		return sets.New(values...).Len() == len(values)
	})
}

func valuesEach(attribute resourceapi.QualifiedName, want string, holds func([]string) bool) Check {
	return func(g *AppPods) error {
		return g.each(func(m Member) error {
			var values []string
			for _, result := range m.Results() {
				device := g.snapshot.device(result)
				if device == nil {
					return fmt.Errorf("has device %s, which is in no slice", deviceID(result))
				}
				values = append(values, attributeText(device.Attributes[attribute]))
			}
			if !holds(values) {
				return fmt.Errorf("has devices with the %s values %q, want them to %s", attribute, values, want)
			}
			return nil
		})
	}
}

// OnNodes wants the pods to run on the given nodes only.
func OnNodes(names ...string) Check {
	return func(g *AppPods) error {
		return g.each(func(m Member) error {
			if !slices.Contains(names, m.Pod.Spec.NodeName) {
				return fmt.Errorf("runs on %s, want one of %s", m.Pod.Spec.NodeName, strings.Join(names, ", "))
			}
			return nil
		})
	}
}

// DifferentNodes wants no two pods of the app on the same node.
func DifferentNodes() Check {
	return func(g *AppPods) error {
		seen := sets.New[string]()
		return g.each(func(m Member) error {
			if seen.Has(m.Pod.Spec.NodeName) {
				return fmt.Errorf("runs on %s like another pod, want different nodes", m.Pod.Spec.NodeName)
			}
			seen.Insert(m.Pod.Spec.NodeName)
			return nil
		})
	}
}

// each applies a check to all pods and returns the first error, with the pod.
func (g *AppPods) each(check func(Member) error) error {
	for _, member := range g.Members {
		if err := check(member); err != nil {
			return fmt.Errorf("pod %s %w", member.Pod.Name, err)
		}
	}
	return nil
}

// eachResult applies a check to all devices of all pods.
func eachResult(check func(*AppPods, resourceapi.DeviceRequestAllocationResult) error) Check {
	return func(g *AppPods) error {
		return g.each(func(m Member) error {
			for _, result := range m.Results() {
				if err := check(g, result); err != nil {
					return fmt.Errorf("has device %s, which %w", deviceID(result), err)
				}
			}
			return nil
		})
	}
}

func resultsOf(claim *resourceapi.ResourceClaim) []resourceapi.DeviceRequestAllocationResult {
	if claim.Status.Allocation == nil {
		return nil
	}
	return claim.Status.Allocation.Devices.Results
}

// deviceID returns driver, pool and device, which together are unique.
func deviceID(result resourceapi.DeviceRequestAllocationResult) string {
	return result.Driver + "/" + result.Pool + "/" + result.Device
}

// attributeText returns the value of an attribute; empty if it has none.
func attributeText(attribute resourceapi.DeviceAttribute) string {
	switch {
	case attribute.StringValue != nil:
		return *attribute.StringValue
	case attribute.IntValue != nil:
		return fmt.Sprint(*attribute.IntValue)
	case attribute.BoolValue != nil:
		return fmt.Sprint(*attribute.BoolValue)
	case attribute.VersionValue != nil:
		return *attribute.VersionValue
	}
	return ""
}

// Running wants the pods to have been started by their node.
func Running() Check {
	return func(g *AppPods) error {
		return g.each(func(m Member) error {
			if m.Pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("is %s, want it to be Running", m.Pod.Status.Phase)
			}
			return nil
		})
	}
}

// TakesOfNode wants the status of each pod to say that its devices stand for an amount of a resource of the node (KEP-5517).
func TakesOfNode(name corev1.ResourceName, amount string) Check {
	return func(g *AppPods) error {
		return g.each(func(m Member) error {
			var sum resource.Quantity
			for _, claim := range m.Pod.Status.NodeAllocatableResourceClaimStatuses {
				for _, mapped := range claim.Mapping {
					if mapped.Name == name && mapped.Quantity != nil {
						sum.Add(*mapped.Quantity)
					}
				}
			}
			if sum.Cmp(resource.MustParse(amount)) != 0 {
				return fmt.Errorf("takes %s %s of its node by its devices, want %s", sum.String(), name, amount)
			}
			return nil
		})
	}
}

// Succeeded wants the pods to have run to their end.
func Succeeded() Check {
	return func(g *AppPods) error {
		return g.each(func(m Member) error {
			if !m.finished() {
				return fmt.Errorf("is %s, want it to have Succeeded", m.Pod.Status.Phase)
			}
			return nil
		})
	}
}
