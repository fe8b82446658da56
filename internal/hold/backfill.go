package hold

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/inventory"
	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// startsWithin is the time for which a kubelet may not have noticed a pod that is bound: its deadline counts from then on.
const startsWithin = 30 * time.Second

// Binds reports whether a pod must leave a hold alone. It may use held devices if its priority is higher, if it can be evicted
// for the holder, and if it is surely gone before the hold begins. group is "namespace/name" of its PodGroup.
func (h *Hold) Binds(pod *v1.Pod, group string, priority int32, now time.Time) bool {
	switch {
	case h.Group && h.Name == group, slices.ContainsFunc(h.Pods, func(own *Pod) bool { return own.UID == pod.UID }):
		return false
	case priority > h.Priority, priority < h.Priority && h.Evicts:
		return false
	case h.Begin.IsZero():
		return true
	}
	most, limited := longest(pod)
	return !limited || now.Add(startsWithin+most).After(h.Begin)
}

// Until returns the expected begin of a hold for a reason on a pod: " until about 14:30 UTC", "" if it is not known.
func (h *Hold) Until() string {
	if h.Begin.IsZero() {
		return ""
	}
	return " until about " + h.Begin.UTC().Format("15:04") + " UTC"
}

// Announcement returns the text of an event about the holder.
func (h *Hold) Announcement() string {
	nodes := h.NodeNames()
	on := strings.Join(nodes[:min(len(nodes), mostNamed)], " and ")
	if more := len(nodes) - mostNamed; more > 0 {
		on += fmt.Sprintf(" and %d more nodes", more)
	}
	begin := ""
	switch {
	case h.Ready:
		begin = "; all of them are free"
	case !h.Begin.IsZero():
		begin = "; the last one is expected to be free at about " + h.Begin.UTC().Format("15:04") + " UTC"
	}
	devices := 0
	for _, n := range h.devices {
		devices += n
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
	if h.Group {
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

// IsIn reports whether devices of a pool are held.
func (h *Hold) IsIn(pool inventory.PoolID) bool { return h.pools[pool] }

// devicesOf adds the devices of allocations to those that were freed.
func devicesOf(freed ledger.Freed, uses []ledger.Use) ledger.Freed {
	for _, use := range uses {
		for result := range ledger.Used(use.Allocation) {
			if freed == nil {
				freed = make(ledger.Freed)
			}
			id := ledger.PoolOf(result)
			freed[id] = append(freed[id], result.Device)
		}
	}
	return freed
}
