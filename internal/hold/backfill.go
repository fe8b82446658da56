package hold

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// The deadline of a pod counts from when the kubelet notices it. A kubelet may not have noticed a pod that is bound for startsWithin; a pod
// that waits for others of its group, or for its volumes, is bound within waitsWithin by default.
const (
	startsWithin = 30 * time.Second
	waitsWithin  = 10 * time.Minute
)

// GuardLabel, with the value "true", of a namespace has a guard in the scheduler's process deny to other schedulers what is held for its pods
// and bookings. Its users may usually not set it: these schedulers do not know of holds, and may ask for the devices again and again.
const GuardLabel = "quartermaster-dra.github.io/guard-holds"

// startsBy returns when a pod that gets a node now has started at the latest.
func startsBy(pod *v1.Pod, group string, now time.Time) time.Time {
	hasVolume := func(volume v1.Volume) bool { return volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil }
	if group != "" || slices.ContainsFunc(pod.Spec.Volumes, hasVolume) {
		now = now.Add(waitsWithin)
	}
	return now.Add(startsWithin)
}

// Binds reports whether a pod must leave a hold alone. It may use held devices if its priority is higher, if it can be evicted
// for the holder, and if it is surely gone before the hold begins. group is "namespace/name" of its PodGroup.
func (h *Hold) Binds(pod *v1.Pod, group string, priority int32, now time.Time) bool {
	most, limited := longest(pod)
	return h.binds(pod, group, priority, now, startsBy(pod, group, now).Add(most), limited)
}

// BindsRunning is Binds for a pod that has its node.
func (h *Hold) BindsRunning(pod *v1.Pod, group string, priority int32, now time.Time) bool {
	gone, known := GoneAt(pod, now)
	return h.binds(pod, group, priority, now, gone, known)
}

// binds implements Binds for a pod that is gone at some time at the latest, if that is known.
func (h *Hold) binds(pod *v1.Pod, group string, priority int32, now, gone time.Time, known bool) bool {
	if h.Booking != nil {
		return priority <= h.Priority && now.Before(h.Booking.End) && !h.Booking.For(pod, group) && (!known || gone.After(h.Booking.Start))
	}
	switch {
	case h.Group && h.Name == group, slices.ContainsFunc(h.Pods, func(own *Pod) bool { return own.UID == pod.UID }):
		return false
	case priority > h.Priority, priority < h.Priority && h.Evicts:
		return false
	}
	return h.Begin.IsZero() || !known || gone.After(h.Begin)
}

// Until returns for a reason on a pod when others may have the devices: at the end of a booking, or at the expected begin of a hold;
// " until about 14:30 UTC", "" if it is not known. It has the date if that is in more than a day.
func (h *Hold) Until(now time.Time) string {
	at := h.Begin
	if h.Booking != nil {
		at = h.Booking.End
	}
	if at.IsZero() {
		return ""
	}
	format := "15:04"
	if at.Sub(now) > 24*time.Hour {
		format = "2006-01-02 15:04"
	}
	return " until about " + at.UTC().Format(format) + " UTC"
}

// Announcement returns the text of an event and a condition of the holder.
func (h *Hold) Announcement(usage ledger.View) string {
	nodes := h.NodeNames()
	on := strings.Join(nodes[:min(len(nodes), mostNamed)], " and ")
	if more := len(nodes) - mostNamed; more > 0 {
		on += fmt.Sprintf(" and %d more nodes", more)
	}
	devices, free := 0, 0
	for id, names := range ledger.DevicesOf(h.All()...) {
		devices += len(names)
		for _, name := range names {
			if !usage.Pool(id).Uses(name) {
				free++
			}
		}
	}
	begin := fmt.Sprintf("; %d of them are in use", devices-free)
	switch {
	case devices == free:
		begin = "; all of them are free"
	case devices-free == 1:
		begin = "; 1 of them is in use"
	}
	if devices > free && !h.Begin.IsZero() {
		begin += " and the last one is expected to be free at about " + h.Begin.UTC().Format("15:04") + " UTC"
	}
	held := "1 device on " + on + " is"
	if devices != 1 {
		held = fmt.Sprintf("%d devices on %s are", devices, on)
	}
	return fmt.Sprintf("%s held for %s which has waited since %s UTC%s", held, h.For(h.Namespace), h.Since.UTC().Format("15:04"), begin)
}

// mostNamed limits the nodes that an event names.
const mostNamed = 3

// For names the holder for a pod of some namespace, which may not know others.
func (h *Hold) For(namespace string) string {
	kind := "pod "
	switch {
	case h.Booking != nil:
		kind = "booking "
	case h.Group:
		kind = "group "
	}
	if h.Namespace != namespace {
		return "a " + kind + "of another namespace"
	}
	return kind + h.Name
}

// NodeNames returns the nodes of a hold, sorted, each once.
func (h *Hold) NodeNames() []string {
	return slices.Compact(slices.Sorted(maps.Values(h.Nodes)))
}

// KeepsFrom reports whether a hold keeps a device of an allocation from a claim, in use or not. What it keeps for the claim itself is the claim's
// own. Shares of a device do not count: others may have other shares.
func (h *Hold) KeepsFrom(claim types.UID, allocation *resourceapi.AllocationResult) bool {
	held := h.heldExceptFor(claim)
	for result := range ledger.Used(allocation) {
		if result.ShareID == nil && slices.Contains(held[ledger.PoolOf(result)], result.Device) {
			return true
		}
	}
	return false
}

// IsIn reports whether devices of a pool are held.
func (h *Hold) IsIn(pool inventory.PoolID) bool { return h.pools[pool] }
