package facts

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/selector"
)

// Selection is a set of conditions on devices; the zero value selects all devices.
type Selection struct {
	// Node selects devices that the node can use.
	Node string
	// Labels selects devices that a node with such labels can use.
	Labels labels.Selector
	// Class selects devices of the class.
	Class *resourceapi.DeviceClass
	// Expression is a CEL expression about the device, as in DeviceClass.spec.selectors.
	Expression string
}

// Select returns the selected devices. It leaves out devices for which an expression cannot be evaluated; failed is
// the error of the first one.
func (f *Facts) Select(ctx context.Context, wanted Selection) (devices []Device, failed, err error) {
	set := wanted.set()
	within := f.within(wanted)
	if set.IsEmpty() {
		return slices.DeleteFunc(f.Devices(), func(d Device) bool { return within != nil && !within[d.DeviceID] }), nil, nil
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
			if within == nil || within[id] {
				devices = append(devices, f.device(pool, i))
			}
		}
	}
	return devices, failed, nil
}

// within returns the devices that the selected nodes can use, nil if no nodes are selected.
func (f *Facts) within(wanted Selection) map[DeviceID]bool {
	if wanted.Node == "" && wanted.Labels == nil {
		return nil
	}
	devices := make(map[DeviceID]bool)
	add := func(pool *inventory.NodePool, position int) {
		devices[DeviceID{pool.ID.Driver, pool.ID.Name, pool.Devices[position].Name}] = true
	}
	for _, node := range f.snapshot.Nodes() {
		if (wanted.Node == "" || node.Name == wanted.Node) && (wanted.Labels == nil || wanted.Labels.Matches(labels.Set(node.Labels))) {
			f.eachOn(node, add)
		}
	}
	return devices
}

// set returns the selectors of a request for the class with the expression as its only own selector.
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

// Find returns the devices with a name: driver/pool/device, or pool/device or device alone. The short forms may match
// several devices.
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

// AttributeText formats the value of an attribute for people, with a separator between the values of a list.
func AttributeText(value resourceapi.DeviceAttribute, separator string) string {
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
		return strings.Join(value.StringValues, separator)
	case value.VersionValues != nil:
		return strings.Join(value.VersionValues, separator)
	case value.IntValues != nil:
		return listText(value.IntValues, separator)
	}
	return listText(value.BoolValues, separator)
}

func listText[T any](list []T, separator string) string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = fmt.Sprint(list[i])
	}
	return strings.Join(texts, separator)
}
