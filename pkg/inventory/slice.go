package inventory

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// Slice is one version of a ResourceSlice with its node selection compiled.
// It is immutable; the ResourceSlice it points to is shared with the informer
// cache, unless it is mixed, and must never be changed.
type Slice struct {
	*resourceapi.ResourceSlice

	// Content is shared by slices whose devices look alike to expressions. Values derived from it
	// survive changes of anything else.
	Content *Content

	reach reach
	// deviceReach has one entry per device if the slice selects nodes per device (KEP-4815,
	// perDeviceNodeSelection); otherwise it is empty.
	deviceReach []reach
	// draws is set by a Store if any of the devices consumes counters.
	draws bool
	// broken is set if the node selection is invalid. The slice then makes its pool invalid on all
	// nodes, because it is not known which nodes it was meant for.
	broken error
}

// NewSlice compiles a ResourceSlice. It never fails: the pools that the slice is part of report the
// errors.
func NewSlice(published *resourceapi.ResourceSlice, content *Content) *Slice {
	s := new(Slice)
	s.init(published, content)
	return s
}

func (s *Slice) init(published *resourceapi.ResourceSlice, content *Content) {
	s.ResourceSlice, s.Content = withOwnCounters(published), content
	spec := &published.Spec
	s.reach, s.broken = newReach(spec.NodeName, spec.AllNodes, spec.NodeSelector)
	if s.broken != nil {
		s.broken = fmt.Errorf("slice %s: %w", published.Name, s.broken)
		return
	}
	if !ptr.Deref(spec.PerDeviceNodeSelection, false) {
		return
	}
	s.deviceReach = make([]reach, len(spec.Devices))
	for i := range spec.Devices {
		device := &spec.Devices[i]
		r, err := newReach(device.NodeName, device.AllNodes, device.NodeSelector)
		if err != nil {
			s.broken = fmt.Errorf("slice %s device %s: %w", published.Name, device.Name, err)
			return
		}
		s.deviceReach[i] = r
	}
}

// PoolID returns the pool that the slice is part of.
func (s *Slice) PoolID() PoolID { return s.poolID() }

func (s *Slice) poolID() PoolID {
	return PoolID{Driver: s.Spec.Driver, Name: s.Spec.Pool.Name}
}

func (s *Slice) generation() int64 { return s.Spec.Pool.Generation }

// reaches reports whether the slice has devices for the node. A slice with neither node selection
// of its own nor per device is for no node: it uses an extension of the API that this version does
// not know.
func (s *Slice) reaches(node *v1.Node) bool {
	if s.broken != nil {
		return true
	}
	if s.reach.set() {
		return s.reach.matches(node)
	}
	for _, device := range s.deviceReach {
		if device.matches(node) {
			return true
		}
	}
	return false
}

// drawsCounters reports whether any of the devices consumes counters (KEP-4815).
func (s *Slice) drawsCounters() bool {
	for i := range s.Spec.Devices {
		if len(s.Spec.Devices[i].ConsumesCounters) > 0 {
			return true
		}
	}
	return false
}

// localTo returns the name of the node if the slice is for one node alone, otherwise "".
func (s *Slice) localTo() string {
	if s.broken != nil {
		return ""
	}
	return s.reach.nodeName
}

// usesCompatibilityGroups reports whether a device declares compatibility groups. An allocator
// without that feature must not ignore them.
func (s *Slice) usesCompatibilityGroups() bool {
	for i := range s.Spec.Devices {
		for _, consumption := range s.Spec.Devices[i].ConsumesCounters {
			if len(consumption.CompatibilityGroups) > 0 {
				return true
			}
		}
	}
	return false
}
