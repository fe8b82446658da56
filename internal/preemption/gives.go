package preemption

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/quartermaster-dra/quartermaster/pkg/ledger"
)

// Gives says which devices a victim gives up: "driver/pool/a, driver/pool/b of claim ns/name". It is "" for a pod
// without devices.
func (h *Holders) Gives(victim *v1.Pod) string {
	var parts []string
	for _, use := range h.UsesOf(victim) {
		var devices []string
		for result := range ledger.Used(use.Allocation) {
			devices = append(devices, result.Driver+"/"+result.Pool+"/"+result.Device)
		}
		if len(devices) > 0 {
			slices.Sort(devices)
			parts = append(parts, fmt.Sprintf("%s of claim %s", few(slices.Compact(devices)), klog.KRef(use.Claim.Namespace, use.Claim.Name)))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// few lists devices, of many only the first ones.
func few(devices []string) string {
	const most = 8
	if len(devices) > most {
		return fmt.Sprintf("%s and %d more devices", strings.Join(devices[:most], ", "), len(devices)-most)
	}
	return strings.Join(devices, ", ")
}
