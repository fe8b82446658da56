package devicefacts

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Selection says which devices are wanted; its zero value says all.
type Selection struct {
	// Node is one that the devices are for.
	Node string
	// Class is one that they are in.
	Class *resourceapi.DeviceClass
	// Expression is a CEL expression that is true for them, as in DeviceClass.spec.selectors.
	Expression string
}

// Select returns the devices that are wanted. Those for which an expression cannot be evaluated are left out, and
// failed is why, for the first one.
func (f *Facts) Select(ctx context.Context, wanted Selection) (devices []Device, failed, err error) {
	set := wanted.set()
	if set.IsEmpty() {
		if wanted.Node != "" {
			return f.DevicesOn(wanted.Node), nil, nil
		}
		return f.Devices(), nil, nil
	}
	onNode := make(map[DeviceID]bool)
	if wanted.Node != "" {
		for _, device := range f.DevicesOn(wanted.Node) {
			onNode[device.DeviceID] = true
		}
	}
	for _, pool := range f.snapshot.Pools() {
		selection, err := f.snapshot.Evaluator().Select(ctx, pool, set)
		if err != nil {
			return nil, nil, fmt.Errorf("find the devices that match: %w", err)
		}
		if first := selection.Failed.Next(0); first >= 0 && failed == nil {
			failed = set.Error(pool, selection, first).Err
		}
		for i := range selection.Matches.All() {
			id := DeviceID{pool.ID.Driver, pool.ID.Name, pool.Devices[i].Name}
			if wanted.Node == "" || onNode[id] {
				devices = append(devices, f.device(pool, i))
			}
		}
	}
	return devices, failed, nil
}

// set makes a set of selectors, as of a request for the class with one selector of its own.
func (s *Selection) set() selector.Set {
	class := s.Class
	if class == nil {
		class = &resourceapi.DeviceClass{}
	}
	var own []resourceapi.DeviceSelector
	if s.Expression != "" {
		own = append(own, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: s.Expression}})
	}
	return selector.NewSet(class, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "selection"}}, "selection", own)
}

// Find returns the devices of a name: driver/pool/device, or pool/device or device alone, if more than one driver or
// pool has one.
func (f *Facts) Find(name string) []Device {
	parts := strings.Split(name, "/")
	var found []Device
	for _, pool := range f.snapshot.Pools() {
		own := parts
		if len(own) == 3 && own[0] != pool.ID.Driver {
			continue
		}
		if len(own) == 3 {
			own = own[1:]
		}
		if len(own) == 2 && own[0] != pool.ID.Name || len(own) > 2 {
			continue
		}
		found = append(found, f.named(pool, own[len(own)-1])...)
	}
	return found
}

func (f *Facts) named(pool *inventory.NodePool, name string) []Device {
	if i := position(pool, name); i >= 0 {
		return []Device{f.device(pool, i)}
	}
	return nil
}

// AttributeText is the value of an attribute as people write it.
func AttributeText(value resourceapi.DeviceAttribute) string {
	switch {
	case value.StringValue != nil:
		return *value.StringValue
	case value.VersionValue != nil:
		return *value.VersionValue
	case value.IntValue != nil:
		return strconv.FormatInt(*value.IntValue, 10)
	case value.BoolValue != nil:
		return strconv.FormatBool(*value.BoolValue)
	case value.StringValues != nil:
		return strings.Join(value.StringValues, ",")
	case value.VersionValues != nil:
		return strings.Join(value.VersionValues, ",")
	case value.IntValues != nil:
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(value.IntValues), " ", ","), "[]")
	case value.BoolValues != nil:
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(value.BoolValues), " ", ","), "[]")
	}
	return ""
}
