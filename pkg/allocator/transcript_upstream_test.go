package allocator_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/quartermaster-dra/quartermaster/pkg/allocator"
)

// crossCheck returns an error if allocator.New or the structured allocator of Kubernetes answers differently.
// The latter can take minutes to find out that there is no solution, so a transcript can say that it must not
// be asked in that case. With the race detector, which can find nothing in it, it is never asked.
func (w *world) crossCheck(claims []*resourceapi.ResourceClaim, gone []string, outcome *allocator.Outcome, solveErr error) error {
	if outcome != nil && outcome.GaveUp {
		return nil
	}
	err := w.compareAnswers(claims, gone, outcome, solveErr)
	if !w.upstreamDiffers {
		return err
	}
	w.upstreamDiffers = false
	if err == nil {
		return errors.New("upstream's answer is the same")
	}
	return nil
}

func (w *world) compareAnswers(claims []*resourceapi.ResourceClaim, gone []string, outcome *allocator.Outcome, solveErr error) error {
	question := w.scenario(claims, gone)
	got, gotErr := question.run(w.ctx, allocator.New, w.celCache())
	switch {
	case solveErr != nil && (errorClass(gotErr) != "fatal" || gotErr.Error() != solveErr.Error()):
		return fmt.Errorf("the solver's error is %v, the drop-in's %w", solveErr, gotErr)
	case solveErr == nil && errorClass(gotErr) == "fatal":
		return fmt.Errorf("the solver has no error, the drop-in's is %w", gotErr)
	case solveErr == nil && outcome.InvalidPools != errors.Is(gotErr, structured.ErrFailedAllocationOnNode):
		return fmt.Errorf("invalid pools: %t, but the drop-in's error is %w", outcome.InvalidPools, gotErr)
	case solveErr == nil && diffOf(outcome.Results, got) != "":
		return fmt.Errorf("the drop-in's plan differs from the solver's (-solver +drop-in):\n%s", diffOf(outcome.Results, got))
	case solveErr == nil && !outcome.Fits() && (w.upstreamIsSlow || raceDetector):
		return nil
	}
	want, wantErr := question.run(w.ctx, structured.NewAllocator, w.celCache())
	if errorClass(wantErr) != errorClass(gotErr) {
		return fmt.Errorf("upstream's error is %v, ours is %v", wantErr, gotErr)
	}
	if diff := diffOf(want, got); diff != "" {
		return fmt.Errorf("upstream's plan differs from ours (-upstream +ours):\n%s", diff)
	}
	return nil
}

// scenario is the question in the form in which other allocators take it.
func (w *world) scenario(claims []*resourceapi.ResourceClaim, gone []string) scenario {
	return scenario{
		features: w.features, state: w.allocatedState(gone), classes: w.classes,
		slices: w.taintedSlices(), node: w.node, claims: claims,
	}
}

// allocatedState returns the allocations of all claims, except of those that are supposed to be gone.
func (w *world) allocatedState(gone []string) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for claim, allocation := range w.held {
		if slices.Contains(gone, claim) {
			continue
		}
		for _, result := range allocation.Devices.Results {
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			switch {
			case ptr.Deref(result.AdminAccess, false): // holds nothing
			case result.ShareID == nil:
				state.AllocatedDevices.Insert(id)
			default:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
		}
	}
	return state
}

// taintedSlices are the slices with the taints that rules add to their devices, by
// name of the rule.
func (w *world) taintedSlices() []*resourceapi.ResourceSlice {
	var result []*resourceapi.ResourceSlice
	for _, published := range w.slices {
		slice := published.DeepCopy()
		for _, name := range slices.Sorted(maps.Keys(w.rules)) {
			taint(slice, &w.rules[name].Spec)
		}
		result = append(result, slice)
	}
	return result
}

func taint(slice *resourceapi.ResourceSlice, rule *resourceapi.DeviceTaintRuleSpec) {
	matches := func(wanted *string, name string) bool { return wanted == nil || *wanted == name }
	s := rule.DeviceSelector
	if s == nil || !matches(s.Driver, slice.Spec.Driver) || !matches(s.Pool, slice.Spec.Pool.Name) {
		return
	}
	for i := range slice.Spec.Devices {
		if device := &slice.Spec.Devices[i]; matches(s.Device, device.Name) {
			device.Taints = append(device.Taints, rule.Taint)
		}
	}
}
