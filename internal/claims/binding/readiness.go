package binding

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"github.com/quartermaster-dra/quartermaster/internal/dra"
)

// Reasons why an allocation cannot be used. The texts are those of the in-tree plugin, for tools and users that look
// for them in the status of pods.
var (
	ErrFailed  = errors.New("device binding failed")
	ErrTimeout = errors.New("device binding timeout")
)

// Has reports whether any device allocated for the claim has binding conditions.
func Has(claim *resourceapi.ResourceClaim) bool {
	if claim.Status.Allocation == nil {
		return false
	}
	return slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(result resourceapi.DeviceRequestAllocationResult) bool {
		return len(result.BindingConditions) > 0
	})
}

// Broken returns why it is useless to wait (any longer) for the claim's devices, nil if it is not: it wraps ErrFailed
// if a driver has reported a failure, and ErrTimeout if the devices were not ready within the timeout (bindingTimeout)
// after their allocation. A claim that gets ready after the timeout can be used.
func (w *Waiter) Broken(claim *resourceapi.ResourceClaim) error {
	if !Has(claim) {
		return nil
	}
	devices := readinessOf(claim)
	if err := failure(claim, devices); err != nil || isReady(devices) {
		return err
	}
	if !isOver(w.expiry(claim)) {
		return nil
	}
	return timedOut(claim, devices, w.Timeout)
}

// isOver reports whether a timeout has ended. Waiter and Broken must agree: otherwise an attempt would begin that fails at once,
// again and again.
func isOver(end time.Time) bool { return !time.Now().Before(end) }

// readiness is the state of a device's conditions that must be true before a pod is bound. Its driver reports them in
// the claim's status.devices.
type readiness struct {
	device *resourceapi.DeviceRequestAllocationResult
	// pending are the binding conditions that are not true (yet).
	pending []string
	// failures are the binding failure conditions that are true.
	failures []metav1.Condition
}

// readinessOf returns one entry for each allocated device with binding conditions.
func readinessOf(claim *resourceapi.ResourceClaim) []readiness {
	if claim.Status.Allocation == nil {
		return nil
	}
	var list []readiness
	results := claim.Status.Allocation.Devices.Results
	for i := range results {
		if device := &results[i]; len(device.BindingConditions) > 0 {
			list = append(list, newReadiness(device, reportedConditions(claim, device)))
		}
	}
	return list
}

func newReadiness(device *resourceapi.DeviceRequestAllocationResult, reported []metav1.Condition) readiness {
	r := readiness{device: device}
	for _, name := range device.BindingConditions {
		if !apimeta.IsStatusConditionTrue(reported, name) {
			r.pending = append(r.pending, name)
		}
	}
	for _, name := range device.BindingFailureConditions {
		if found := apimeta.FindStatusCondition(reported, name); found != nil && found.Status == metav1.ConditionTrue {
			r.failures = append(r.failures, *found)
		}
	}
	return r
}

// reportedConditions returns the conditions that the driver has reported for an allocated device. Each share of a
// shared device has its own conditions.
func reportedConditions(claim *resourceapi.ResourceClaim, device *resourceapi.DeviceRequestAllocationResult) []metav1.Condition {
	for i := range claim.Status.Devices {
		reported := &claim.Status.Devices[i]
		if reported.Driver == device.Driver && reported.Pool == device.Pool && reported.Device == device.Device &&
			(reported.ShareID == nil) == (device.ShareID == nil) &&
			(reported.ShareID == nil || *reported.ShareID == string(*device.ShareID)) {
			return reported.Conditions
		}
	}
	return nil
}

// isReady reports whether all binding conditions are true, and no failure condition is.
func isReady(devices []readiness) bool {
	return !slices.ContainsFunc(devices, func(device readiness) bool { return len(device.pending) > 0 || len(device.failures) > 0 })
}

// failure returns an error for the first failure that a driver has reported, nil if there is none.
func failure(claim *resourceapi.ResourceClaim, devices []readiness) error {
	for _, device := range devices {
		if len(device.failures) > 0 {
			first := device.failures[0]
			return fmt.Errorf("%w: claim %s: the driver says of device %s that %s is true: %s (%s)",
				ErrFailed, dra.Of(claim), device.name(), first.Type, first.Message, first.Reason)
		}
	}
	return nil
}

// timedOut returns the error for a claim that took too long.
func timedOut(claim *resourceapi.ResourceClaim, devices []readiness, timeout time.Duration) error {
	return fmt.Errorf("%w: claim %s: %s within %s (bindingTimeout)", ErrTimeout, dra.Of(claim), describePending(devices), timeout)
}

// describePending lists the missing conditions: "device a lacks x and y; device b lacks z".
func describePending(devices []readiness) string {
	var parts []string
	for _, device := range devices {
		if len(device.pending) > 0 {
			parts = append(parts, fmt.Sprintf("device %s lacks %s", device.name(), strings.Join(device.pending, " and ")))
		}
	}
	return strings.Join(parts, "; ")
}

// name returns the device's name with its driver and pool.
func (r readiness) name() string {
	return r.device.Driver + "/" + r.device.Pool + "/" + r.device.Device
}

// Pending describes which devices of a claim lack which binding conditions. It returns "" if all are ready.
func Pending(claim *resourceapi.ResourceClaim) string { return describePending(readinessOf(claim)) }

// sightings remembers when allocations were first seen that have no timestamp, or one that is yet to come: the clock that made it
// was ahead. Otherwise each wait would end by its own beginning, and pods that share a claim would take turns to wait for good.
type sightings struct {
	mutex sync.Mutex
	of    *lru.Cache // sighting, by UID of a claim
}

type sighting struct {
	timestamp *metav1.Time
	devices   []resourceapi.DeviceRequestAllocationResult
	at        time.Time
}

// expiry returns when the timeout ends that began with the claim's allocation. It is the same for all pods of the profile.
func (w *Waiter) expiry(claim *resourceapi.ResourceClaim) time.Time {
	allocated, now := claim.Status.Allocation.AllocationTimestamp, time.Now()
	w.seen.mutex.Lock()
	defer w.seen.mutex.Unlock()
	if w.seen.of == nil {
		w.seen.of = lru.New(mostFailing)
	}
	if known, found := w.seen.of.Get(claim.UID); found {
		if first := known.(sighting); first.timestamp.Equal(allocated) && slices.EqualFunc(first.devices, claim.Status.Allocation.Devices.Results, isSameDevice) {
			return first.at.Add(w.Timeout)
		}
	}
	if allocated != nil && !allocated.After(now) {
		return allocated.Add(w.Timeout)
	}
	w.seen.of.Add(claim.UID, sighting{allocated, claim.Status.Allocation.Devices.Results, now})
	return now.Add(w.Timeout)
}

func isSameDevice(a, b resourceapi.DeviceRequestAllocationResult) bool {
	return a.Driver == b.Driver && a.Pool == b.Pool && a.Device == b.Device
}
