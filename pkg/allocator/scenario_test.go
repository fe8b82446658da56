package allocator_test

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/dynamic-resource-allocation/structured"
	"sigs.k8s.io/yaml"
)

// scenario is a complete input of an allocator.
type scenario struct {
	features structured.Features
	state    structured.AllocatedState
	classes  classes
	slices   []*resourceapi.ResourceSlice
	node     *v1.Node
	claims   []*resourceapi.ResourceClaim
	// asAPI makes the oracle and the validity check follow the API where upstream does not: an error does not
	// end a search that another device or alternative could decide, and admin access takes nothing.
	asAPI bool
}

// String writes down everything that a reader needs to repeat the scenario.
func (s scenario) String() string {
	consumed := make(map[string]any)
	for id, capacity := range s.state.AggregatedCapacity {
		consumed[id.String()] = capacity
	}
	text, err := yaml.Marshal(map[string]any{
		"features": s.features.Set().UnsortedList(),
		"node":     map[string]any{"name": s.node.Name, "labels": s.node.Labels, "declaredFeatures": s.node.Status.DeclaredFeatures},
		"classes":  s.classes, "slices": s.slices, "claims": s.claims,
		"allocated": s.state.AllocatedDevices.UnsortedList(), "shares": s.state.AllocatedSharedDeviceIDs.UnsortedList(), "consumed": consumed,
	})
	if err != nil {
		return err.Error()
	}
	return string(text)
}

type classes map[string]*resourceapi.DeviceClass

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclasses"}, name)
}

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	var all []*resourceapi.DeviceClass
	for _, class := range c {
		all = append(all, class)
	}
	return all, nil
}

func classList(list ...*resourceapi.DeviceClass) classes {
	c := make(classes)
	for _, class := range list {
		c[class.Name] = class
	}
	return c
}
